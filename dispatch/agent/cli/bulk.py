"""`evenflow requeue`, `cancel` and `discard`: some tasks by their ids, or all that match search words.

Dead tasks are discarded by search words only: it is final, and a dry run shows first what is meant.

By words it is a bulk job of the server, paced and watched: --dry-run freezes the ids and shows how many there are,
`--from JOB` then runs exactly those, --rate and --max-in-flight pace it, --canary tries a few first, --stop-above ends
it when too many fail again. Ctrl-C stops watching, not the job.
"""

import argparse
import time
from typing import Any

from dispatch.agent.cli import exits, grammar, search
from dispatch.agent.cli.bar import Bar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.errors import ApiError

POLL_S = 1.0
ENDED = {"done", "finished", "completed", "aborted", "stopped", "failed", "previewed", "dry_run"}
GOOD = {"done", "finished", "completed", "previewed", "dry_run"}
VERBS = {
    "requeue": "give dead tasks a fresh life, by id or by search words",
    "cancel": "cancel tasks, by id or by search words",
    "discard": "give up dead tasks for good, by search words",
}
PACE = ("rate_per_s", "max_in_flight", "canary", "stop_above")


def add(commands: grammar.Grammar) -> None:
    """Declare the commands."""
    for verb, help in VERBS.items():
        command = commands.command(verb, help)
        what = search.HELP if verb == "discard" else f"task ids, or {search.HELP}"
        command.add_argument("what", nargs="*", metavar="WORD" if verb == "discard" else "ID|WORD", help=what)
        command.add_argument("--reason", default="", help="for the audit; needed with search words")
        command.add_argument("--dry-run", action="store_true", help="only count, and freeze the ids")
        command.add_argument("--from", metavar="JOB", type=int, dest="source", help="run what that dry run froze")
        command.add_argument("--rate", metavar="N/s", type=grammar.rate, dest="rate_per_s", help="5/s, 30/m")
        command.add_argument("--max-in-flight", metavar="N", type=int, dest="max_in_flight")
        command.add_argument("--canary", metavar="N", type=int, help="so many first, the rest when they did well")
        command.add_argument("--stop-above", metavar="SHARE", type=grammar.fraction, dest="stop_above", help="20%%")
        command.add_argument("--no-wait", action="store_true", help="do not watch the job")
        command.set_defaults(run=run, verb=verb)


def run(args: argparse.Namespace, out: Output) -> int:
    """By id, by words, or from a dry run."""
    pace = {name: getattr(args, name) for name in PACE if getattr(args, name) is not None}
    ids = [int(word) for word in args.what if word.isascii() and word.isdigit()]
    if args.source is not None and not args.what:
        body = {"from": args.source, **pace, **({"reason": args.reason} if args.reason else {})}
        return _job(connect(args), body, args, out)
    if not args.what or args.source is not None:
        raise exits.Trouble("name task ids, or search words, or --from JOB", exits.USAGE)
    if ids and args.verb == "discard":
        raise exits.Trouble("`discard` takes search words, such as fingerprint:… or key:…", exits.USAGE)
    if len(ids) == len(args.what):
        if pace or args.dry_run:
            raise exits.Trouble("pace and --dry-run are for search words, not for ids", exits.USAGE)
        return _each(connect(args), ids, args, out)
    if ids:
        raise exits.Trouble("ids and search words do not mix", exits.USAGE)
    if not args.reason:
        raise exits.Trouble(f"`{args.verb}` by search words needs --reason", exits.USAGE)
    body = {"action": args.verb, "filter": search.filters(args.what), "reason": args.reason, **pace}
    return _job(connect(args), {**body, "dry_run": True} if args.dry_run else body, args, out)


def _each(server: Server, ids: list[int], args: argparse.Namespace, out: Output) -> int:
    """One call per id; a refused one does not stop the others, the first refusal gives the exit code."""
    body = {"reason": args.reason} if args.reason else {}
    answers, code = [], exits.OK
    with Bar(args.verb, len(ids)) as bar:
        for number, task_id in enumerate(ids, 1):
            try:
                answer = {"task_id": task_id, **server.post(f"/tasks/{task_id}/{args.verb}", body)}
                said = _said(answer)
            except ApiError as error:
                problem = exits.explain(error)
                if problem.code not in {exits.REFUSED, exits.NOT_FOUND}:
                    raise
                code = code or problem.code
                answer = {"task_id": task_id, "error": problem.slug, "detail": problem.sentence}
                said = f"refused: {problem.sentence}"
            answers.append(answer)
            if not out.as_json:
                out.line(f"{task_id}  {said}")
            bar.show(number)
    if out.as_json:
        out.document({"items": answers})
    return code


def _said(answer: dict[str, Any]) -> str:
    return "cancel requested, its agent will hear" if answer.get("cancel_requested") else str(answer.get("state"))


def _job(server: Server, body: dict[str, Any], args: argparse.Namespace, out: Output) -> int:
    job = server.post("/bulk", body)
    if not args.no_wait and not args.dry_run:
        job = _watch(server, job, args.verb)
    if out.as_json:
        out.document(job)
    else:
        _show(job, args, out)
    return exits.NO if job.get("state") in ENDED - GOOD else exits.OK


def _watch(server: Server, job: dict[str, Any], verb: str) -> dict[str, Any]:
    with Bar(f"{verb} (job {job['id']})", job.get("matched")) as bar:
        while job.get("state") not in ENDED:
            bar.show(_handled(job), str(job.get("state") or ""), now=True)
            time.sleep(POLL_S)
            job = server.get(f"/bulk/{job['id']}")
    return job


def _handled(job: dict[str, Any]) -> int:
    return int(job.get("done") or 0) + len(job.get("skipped") or ())


def _show(job: dict[str, Any], args: argparse.Namespace, out: Output) -> None:
    skipped = job.get("skipped") or []
    out.line(
        f"job {job['id']}  {job.get('state')}  matched {job.get('matched')}, done {job.get('done')}, "
        f"skipped {len(skipped)}, new since {job.get('new') or 0}"
    )
    for item in skipped[:20]:
        out.line(f"  {item.get('task_id')}  {item.get('reason')}")
    if len(skipped) > 20:
        out.line(f"  … and {len(skipped) - 20} more (--json shows all)")
    if args.dry_run:
        out.note(f"nothing was changed; run it: evenflow {args.verb} --from {job['id']}")
