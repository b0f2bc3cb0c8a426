"""perinstance.data"""
