"""perinstance.releases"""
