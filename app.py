"""Entry point: start the playground. The same file serves `make run` and a Hugging Face Space."""

from playground.ui.start import main

if __name__ == "__main__":
    main()
