"""perinstance.sampling"""
