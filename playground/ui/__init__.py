"""The page: components, handlers and tabs. The only layer that knows Gradio."""

import os

# Before Gradio is imported: it looks for updates and reports use unless told not to.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
