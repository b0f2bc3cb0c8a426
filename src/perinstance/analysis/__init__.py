"""perinstance.analysis"""
