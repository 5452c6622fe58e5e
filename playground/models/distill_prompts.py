"""Prompts for the distillation corpus: many kinds of text starts, and chat.

The teacher goes on from them, so what matters is that they lead into different registers: stories,
facts, recipes, news, code, letters, questions and answers. A prompt is a template with its blanks
filled at random. Every eighth template and every eighth filler is set aside for the held-out
corpus, so the two share neither.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

KINDS = ("chat", "text", "word", "free")
# Share of the rows: chat turns, text openers, one word to start from, nothing at all.
SHARES = (0.38, 0.37, 0.15, 0.10)

FILLERS = {
    "thing": """bicycle, kitchen knife, telescope, piano, umbrella, lighthouse, bridge, compass,
        violin, microscope, clock, sailboat, lantern, notebook, camera, ladder, mirror, hammer,
        backpack, guitar, tractor, carpet, teapot, helmet, satellite, elevator, candle, anchor,
        typewriter, drum, wheel, battery, magnet, tent, coat, printer, robot, train, window,
        garden chair""",
    "topic": """photosynthesis, black holes, the French Revolution, chess, beekeeping, inflation,
        volcanoes, jazz, vaccines, the Roman Empire, sleep, machine learning, tides, whales,
        democracy, bread baking, the stock market, gravity, poetry, marathon running, recycling,
        coral reefs, the human heart, climate change, public transport, solar energy, dinosaurs,
        architecture, wine, the water cycle, memory, football, gardening, electric cars,
        earthquakes, languages, antibiotics, the moon, cheese making, probability, urban
        planning, evolution, meditation, opera, glaciers, DNA, taxes, coffee, bridges, video
        games, migration of birds, nuclear power, loneliness, the printing press, honey, spiders,
        friendship, mountains, statistics, the Silk Road""",
    "place": """Paris, Lagos, Tokyo, Vienna, the Sahara, Brazil, Iceland, New York, Mumbai, Kenya,
        Rome, the Alps, Sydney, Peru, Cairo, Norway, Texas, Istanbul, Beijing, a small village,
        Scotland, Mexico City, the Amazon, Greece, Seoul, Canada, Moscow, Vietnam, London, Chile,
        an old harbour town, Berlin, Jamaica, Prague, South Africa, the North Sea""",
    "name": """Anna, Mr. Collins, Maria, Tom, Dr. Singh, Elena, Jack, Amina, the captain, Sophie,
        Old Henry, Lucas, Mrs. Baker, Wei, the king, Clara, Ben, Fatima, the detective, Oliver,
        Nora, a young fox, Sam, Professor Lee, the twins, Isabel, David, the gardener, Yuki, Leo,
        the old woman, Marta""",
    "food": """tomato soup, apple pie, fried rice, lentil curry, pancakes, lasagna, salad, roast
        chicken, dumplings, bread, chocolate cake, tacos, noodle soup, omelette, cheesecake,
        pizza, fish stew, hummus, risotto, cookies, goulash, grilled vegetables, paella, muffins""",
    "job": """teacher, nurse, carpenter, pilot, baker, lawyer, engineer, farmer, journalist,
        musician, architect, doctor, sailor, programmer, librarian, mechanic, painter, judge,
        firefighter, translator, biologist, chef, electrician, historian""",
    "number": """three, 12, 7, fifty, 100, two, 25, a thousand, 8, 1.5, 40, 365, nine, 64, 2,500,
        six""",
    "year": "1492, 1789, 1815, 1848, 1905, 1914, 1929, 1945, 1969, 1989, 1999, 2004, 2010, 2016",
    "code": """adds two numbers, reverses a string, checks whether a number is prime, sorts a list,
        counts the words in a text, computes a factorial, reads a file, finds the largest value,
        removes duplicates from a list, converts Celsius to Fahrenheit, merges two dictionaries,
        computes the mean of a list, checks for a palindrome, prints a multiplication table,
        parses a date, downloads a page""",
}

TEXT = """\
Once upon a time, {name}
Long ago in {place}, there lived
It was raining when {name}
"I don't believe you," said {name}.
{name} opened the door and
{name} picked up the {thing} and
{name} had never been to {place} before, but
The {thing} on the table was
My grandmother always told me that {topic}
When I was a child, we used to
The best way to learn about {topic} is
The history of {topic} begins
{topic} is one of the most
In {year}, the people of {place}
The population of {place} is
The capital of {place}
Scientists have discovered that {topic}
A new study published in {year} shows that
The main difference between {topic} and {topic} is
There are {number} reasons why {topic}
To make {food}, you need
Recipe: {food}. Ingredients:
First, wash the vegetables. Then
The {job} looked at the {thing} and said
Every {job} knows that
A {job} is a person who
Dear {name}, I am writing to you because
Dear Sir or Madam,
Thank you for your letter of
Breaking news from {place}:
The government of {place} announced on Monday that
The weather in {place} is
Travel guide to {place}. The first thing to see is
Chapter 1. {name}
The {thing} was invented in
How does a {thing} work? A {thing}
Question: What is {topic}? Answer:
Q: How many {thing}s are there in {place}? A:
def main():
# A Python function that {code}
import numpy as np
<html>
SELECT name,
The following table shows
In mathematics, {topic} is
Let x be a number such that
If {number} apples cost {number} dollars, then
The three most important things in life are
Roses are red,
The sun was setting over {place}, and
She walked slowly through the streets of {place},
He was a {job} from {place} who
I went to the market and bought
I think that {topic} is important because
On the one hand, {topic}
In conclusion, {topic}
{name} and {name} were arguing about {topic}.
The secret of good {food} is
The film tells the story of a {job} who
Review: This {thing} is
The patient was a {number}-year-old
The team from {place} won the match because
Water, air and
The opposite of hot is
Monday, Tuesday,
1, 2, 3,
List of animals: dog, cat,
The quick brown
As a {job}, I have to
The old {thing} belonged to
Nobody in {place} knew why
The doctor told {name} to
Abstract. We study the effect of {topic} on
The law of {place} says that
Step 1: Take the {thing}.
Today we are going to talk about {topic}.
The meaning of the word "{thing}" is
Le chat est
Once there was a {thing} that could
All the lights in {place} went out, and"""

CHAT = """\
What is {topic}?
Explain {topic} to a child.
Explain {topic} in one sentence.
Why is {topic} important?
Write a short story about a {job} from {place}.
Write a poem about {topic}.
Write a haiku about a {thing}.
How do I make {food}?
Give me a recipe for {food} with {number} ingredients.
What should I see in {place}?
Tell me about the history of {place}.
Tell me a joke about a {job}.
List {number} facts about {topic}.
What is the capital of {place}?
Write a Python function that {code}.
How can I write a program that {code}?
Summarize the history of {topic}.
What are the advantages and disadvantages of {topic}?
Write an email to my boss asking for a day off.
Write a letter from {name} to {name}.
Describe a {thing} to somebody who has never seen one.
How does a {thing} work?
Who invented the {thing}?
What happened in {year}?
What is {number} plus {number}?
If a {thing} costs {number} dollars and I buy {number}, what do I pay?
Translate to French: The {job} has a {thing}.
Correct the grammar: me and {name} was going to {place}.
Give me advice: I want to become a {job}.
Suggest names for a cat.
Is it true that {topic} can be dangerous?
Compare {topic} and {topic}.
Make a plan for a weekend in {place}.
I feel sad today.
Hello! Who are you?
Can you help me with {topic}?
Write a dialogue between {name} and {name} about {topic}.
Continue the story: {name} opened the old {thing} and
What would happen if there were no {thing}s?
Write a product description for a {thing}.
Write a news report about {topic} in {place}.
How can I learn about {topic} quickly?
What does a {job} do all day?
Rewrite this sentence politely: Give me the {thing}.
What is the meaning of life?
Name {number} animals that live in {place}.
Write a speech about {topic}.
Create a quiz on {topic} with answers.
Thanks! Now make it shorter.
And why is that?
Can you give me an example?
How long does it take to get from {place} to {place}?
Write a review of a restaurant that serves {food}.
Which is better, {food} or {food}?
What is the best time to visit {place}?
Should I tell {name} the truth?
Explain what this does: for i in range(10): print(i)
Turn this into a list: {thing}, {thing}, {thing}
Write an advertisement for {food}.
Tell me a bedtime story."""


def _split(items: Sequence[str], held_out: bool) -> list[str]:
    return [item for i, item in enumerate(items) if (i % 8 == 5) == held_out]


class Prompts:
    """Endless random prompts of one corpus (training or held-out), as token ids.

    ``encode`` turns text into ids. A chat prompt is a whole turn: with ``first`` the system's and
    the user's, later only the user's; the assistant's answer is what the teacher writes.
    """

    def __init__(
        self, encode: Callable[[str], list[int]], vocab_size: int, seed: int, held_out: bool = False
    ) -> None:
        self._encode = encode
        self._random = random.Random(f"{seed}/{held_out}")
        self._vocab_size = vocab_size
        self._text = _split(TEXT.splitlines(), held_out)
        self._chat = _split(CHAT.splitlines(), held_out)
        self._fillers = {
            name: _split([" ".join(w.split()) for w in re.split(r",\s(?!500)", words)], held_out)
            for name, words in FILLERS.items()
        }

    def kind(self) -> str:
        """Draw a kind for a new row."""
        return self._random.choices(KINDS, SHARES)[0]

    def fill(self, template: str) -> str:
        """Fill the blanks; a text that starts with one gets a capital."""
        text = re.sub(
            r"\{(\w+)\}", lambda m: self._random.choice(self._fillers[m.group(1)]), template
        )
        return text[0].upper() + text[1:] if template.startswith("{") else text

    def ids(self, kind: str, first: bool) -> list[int]:
        """Return the ids of a prompt of that kind (at least one)."""
        if kind == "chat":
            return self._encode(self._turn(self.fill(self._random.choice(self._chat)), first))
        if kind == "text":
            return self._encode(self.fill(self._random.choice(self._text)))
        if kind == "word":
            return [self._random.randrange(17, self._vocab_size)]
        return [0]  # <|endoftext|>: the teacher's own idea of a document

    def _turn(self, question: str, first: bool) -> str:
        head = ""
        if first and self._random.random() < 0.8:
            head = (
                "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
                "Hugging Face<|im_end|>\n"
            )
        elif not first:
            head = "\n"
        return f"{head}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
