"""perinstance.engines"""
