"""What every release shares: the contract with the audit (``release``), publishing one exact draw (``publishing``),
predicting (``predicting``), validated arguments, a warning inside searches (``repeated_fits``), losses as text that is
rounded up (``shown_decimals``), and the published model as JSON (``model_document``) and in words (``promise_words``).
"""
