"""`manage.py simulate SCENARIO.json`: run the scheduling core on a virtual clock and print what came of it.

Needs no database. Prints shares, waits, starvation and a small plot per case, and the scenario's expectations; exit
code 1 when one fails. Options: --policy NAME (default fair), --case NAME, --json (the whole reports, machine-readable).
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dispatch.core.policies import registry
from dispatch.core.sim import Check, Report, Scenario, check, load, simulate

BAR = 40  # characters of a full bar


class Command(BaseCommand):
    """Scenario in, shares and waits out."""

    help = "Simulate a scheduling scenario on a virtual clock."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("scenario", type=Path, help="a scenario document (JSON)")
        parser.add_argument("--policy", choices=sorted(registry), default="fair")
        parser.add_argument("--case", help="only this case")
        parser.add_argument("--json", action="store_true", help="print the reports as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        scenarios = _read(options["scenario"], options["case"])
        failed = 0
        reports = {}
        for scenario in scenarios:
            report = _run(scenario, options["policy"])
            checks = check(scenario, report)
            failed += sum(not one.holds for one in checks)
            reports[scenario.name] = report
            if not options["json"]:
                self.stdout.write("\n".join(_lines(scenario, report, checks)))
        if options["json"]:
            self.stdout.write(json.dumps(reports))
        if failed:
            raise CommandError(f"{failed} expectations failed", returncode=1)


def _read(path: Path, case: str | None) -> list[Scenario]:
    try:
        document = json.loads(path.read_text())
        if not isinstance(document, dict):
            raise CommandError(f"{path} is not a scenario: it must be a JSON object")
        scenarios = load(document)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not text in UTF-8") from error
    except json.JSONDecodeError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error
    except KeyError as error:
        raise CommandError(f"{path} is not a scenario: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandError(f"{path} is not a scenario: {error}") from error
    chosen = [scenario for scenario in scenarios if case in (None, scenario.name)]
    if not chosen:
        raise CommandError(f"no case {case} in {path}" if case else f"no case with a workload in {path}")
    return chosen


def _run(scenario: Scenario, policy: str) -> Report:
    try:
        return simulate(scenario, registry[policy])
    except KeyError as error:
        raise CommandError(f"case {scenario.name} cannot run: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandError(f"case {scenario.name} cannot run: {error}") from error


def _lines(scenario: Scenario, report: Report, checks: list[Check]) -> list[str]:
    lines = [
        "",
        f"{scenario.name}: {report['dispatched']} dispatched, {report['completed']} completed, "
        f"{report['utilisation']:.1%} of the slots used",
    ]
    lines += _shares(report)
    lines += _waits(report)
    lines += _starvation(report)
    lines += [f"  violation {entry}" for entry in report["violation_log"]]
    lines += [f"  {'ok  ' if c.holds else 'FAIL'} {c.metric} = {c.got:.4g} (wanted {c.wanted})" for c in checks]
    return lines


def _subjects(names: Any) -> list[str]:
    """Classes first, then tenants; users and tools stay in the JSON."""
    return sorted(name for name in names if name.startswith(("class:", "tenant:")))


def _shares(report: Report) -> list[str]:
    lines = [f"  {'share of slots':32} {'slots':>8} {'share':>7}"]
    for name in _subjects(report["share"]):
        share = report["share"][name]
        lines.append(f"  {name:32} {report['slots'][name]:8.2f} {share:7.1%} {'█' * round(share * BAR)}")
    return lines


def _waits(report: Report) -> list[str]:
    lines = [f"  {'wait in seconds':32} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8}"]
    for name in _subjects(report["wait"]):
        wait = report["wait"][name]
        lines.append(f"  {name:32} {wait['p50']:8.1f} {wait['p95']:8.1f} {wait['p99']:8.1f} {wait['max']:8.1f}")
    return lines


def _starvation(report: Report) -> list[str]:
    """The longest time that a lane with work was not served, worst first."""
    gaps = sorted(report["lane_gap_max"].items(), key=lambda gap: -gap[1])[:5]
    lines = [f"  {'longest gap of a waiting lane':32} {'seconds':>8}"]
    return lines + [f"  {name:32} {gap:8.1f}" for name, gap in gaps]
