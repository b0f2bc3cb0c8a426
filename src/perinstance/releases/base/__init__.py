"""What every release shares: the contract with the audit (``release``), publishing one exact draw (``publishing``),
predicting (``predicting``), and validated arguments.
"""
