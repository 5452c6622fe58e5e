"""Engines: ids + LanguageModel + params -> records. They know no text and no screen."""
