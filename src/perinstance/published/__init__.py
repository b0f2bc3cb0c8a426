"""Published models read back from their JSON files: ``load`` checks a file, ``PublishedModel`` predicts with it.

What is written, and by whom, is ``releases/base/model_document.py``. Nothing here has seen the data.
"""

from perinstance.published.model import PublishedModel
from perinstance.published.model_files import load_model

__all__ = ["PublishedModel", "load_model"]
