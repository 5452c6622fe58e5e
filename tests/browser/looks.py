"""What a picture of the page would show: texts that overlap, are cut off or are hard to read."""

from __future__ import annotations

from typing import Any

# Visible texts (HTML and SVG), their boxes, and whether a hidden overflow cuts them.
_TEXTS = """(root) => {
  const skip = ".dp-hidden,.sr-only,.visually-hidden,[aria-hidden=true],script,style,.hoverlayer";
  const seen = {opacityProperty: true, visibilityProperty: true};
  const shown = [];
  const walk = document.createTreeWalker(document.querySelector(root), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.textContent.trim() || !parent.checkVisibility(seen) || parent.closest(skip)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = (parent.closest("svg") ? parent : range).getBoundingClientRect();
    if (box.width < 1 || box.height < 1) continue;
    let clipped = false, scrolls = false;
    for (let a = parent; a && a !== document.body; a = a.parentElement) {
      const style = getComputedStyle(a), outer = a.getBoundingClientRect();
      if (/auto|scroll/.test(style.overflowX + style.overflowY)) { scrolls = true; break; }
      if (style.overflow !== "hidden" || a.closest("svg svg")) continue;
      if (box.left < outer.left - 1.5 || box.right > outer.right + 1.5 ||
          box.top < outer.top - 3 || box.bottom > outer.bottom + 3) clipped = true;
    }
    if (scrolls) continue;
    shown.push({text: node.textContent.trim().slice(0, 40), clipped,
                left: box.left, right: box.right, top: box.top, bottom: box.bottom,
                fixed: !!parent.closest(".dp-header,.tab-wrapper")});
  }
  return shown;
}"""

# Texts in HTML whose colour and ground, as painted, are less than 4.5 : 1 apart.
_LOW_CONTRAST = """(root) => {
  const pixel = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const paint = pixel.getContext("2d", {willReadFrequently: true});
  const over = (color, base) => {
    for (const fill of [`rgb(${base})`, color]) {
      paint.fillStyle = fill;
      paint.fillRect(0, 0, 1, 1);
    }
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = {opacityProperty: true, visibilityProperty: true};
  const low = [];
  const walk = document.createTreeWalker(document.querySelector(root), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), parent = walk.currentNode.parentElement;
    if (!text || !parent.checkVisibility(seen)) continue;
    if (parent.closest("svg,style,script,:disabled")) continue;
    const chain = [];
    for (let a = parent; a; a = a.parentElement) chain.unshift(getComputedStyle(a));
    const white = [255, 255, 255];
    const ground = chain.reduce((base, style) => over(style.backgroundColor, base), white);
    const ink = over(getComputedStyle(parent).color, ground);
    const [high, deep] = [luminance(ground), luminance(ink)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (deep + 0.05);
    if (ratio < 4.5) low.push([text.slice(0, 30), ratio.toFixed(2)]);
  }
  return low;
}"""


def texts(page: Any, root: str = ".gradio-container") -> list[dict[str, Any]]:
    """Return the visible texts under ``root`` with their boxes."""
    return page.evaluate(_TEXTS, root)


def overlaps(page: Any, root: str = ".gradio-container", slack: float = 3) -> list[tuple[str, str]]:
    """Return pairs of texts whose boxes overlap by more than ``slack`` px in both directions.

    The header is compared with itself only: the page scrolls beneath it.
    """
    found = texts(page, root)
    return [
        (a["text"], b["text"])
        for i, a in enumerate(found)
        for b in found[i + 1 :]
        if a["fixed"] == b["fixed"]
        and min(a["right"], b["right"]) - max(a["left"], b["left"]) > slack
        and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > slack
    ]


def clipped(page: Any, root: str = ".gradio-container") -> list[str]:
    """Return texts that an ancestor with hidden overflow cuts off."""
    return [item["text"] for item in texts(page, root) if item["clipped"]]


def low_contrast(page: Any, root: str = ".gradio-container") -> list[tuple[str, str]]:
    """Return texts with their contrast where it is below 4.5 : 1 (WCAG AA)."""
    return page.evaluate(_LOW_CONTRAST, root)


def sideways(page: Any) -> int:
    """Return by how many px the page can be scrolled sideways."""
    beyond = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return max(0, beyond)
