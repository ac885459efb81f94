"""The card as plain text: for terminals, for what a program reads, for a saved notebook's diff."""

from __future__ import annotations

from submarine_magics.card.model import CardView, TaskView


def to_text(card: CardView) -> str:
    """Return the card in a few lines, the most important one first.

    What differs from run to run stands in two of them, so that a notebook that was run again
    differs in little.
    """
    facts = " · ".join((*card.facts, card.log_command))
    lines = [f"{card.glyph} {card.title}: {card.word}, {card.elapsed_text} ({facts})"]
    lines += [f"  {card.sentence}"] if card.sentence else []
    if card.progress is not None and not card.final:
        lines.append(f"  {bar(card.progress)} {percent(card.progress)} {card.message}".rstrip())
    lines.append(f"  GPU ledger: {ledger_words(card)}")
    lines += [f"  {task_words(task)}" for task in card.tasks]
    lines += [f"  … {card.tasks_left_out} tasks more"] if card.tasks_left_out else []
    lines += [f"  {label}: {url}" for label, url in (*card.links, *card.quicklinks)]
    if card.script:
        lines.append(f"  script: {card.script.name}, {card.script.lines}, {card.script.hash[:12]}")
    return "\n".join(lines)


def ledger_words(card: CardView) -> str:
    """Return the ledger as one sentence."""
    stages = [f"{stage.name} {stage.text}" for stage in card.ledger.stages]
    return ", ".join(filter(None, (card.ledger.gpus, *stages, card.ledger.released)))


def task_words(task: TaskView) -> str:
    """Return a task as one sentence."""
    state = f"{task.state} ({task.detail})" if task.detail else task.state
    done = "" if task.progress is None else f", {percent(task.progress)}"
    return f"{task.task} on {task.host}: {state}{done}"


def percent(fraction: float) -> str:
    """Return ``72 %``; never 100 % before the end."""
    return f"{int(fraction * 100 + 1e-9)} %"


def bar(fraction: float, width: int = 20) -> str:
    """Return a bar of characters."""
    full = int(fraction * width)
    return "█" * full + "░" * (width - full)
