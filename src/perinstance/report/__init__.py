"""perinstance.report"""
