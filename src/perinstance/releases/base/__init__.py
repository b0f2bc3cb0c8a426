"""What every release shares: the contract with the audit (``release``), publishing one exact draw and predicting
with it (``publishing``), validated arguments, the published model as JSON, realised and own-row losses.
"""
