"""What the help of each command has beside its text: examples, and options that it does not list.

A command's words are those that call it: `match`, `ladder run`; those of the program are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

RARE: Mapping[str, str] = {
    "match": "--bot-uids --cluster --freeze --isolation --quiet --seating --tables --tcp",
    "play": "--bot-uids --freeze --isolation",
    "improve": "--bot-uids --freeze --isolation --precision --rules --seed",
    "compare": "--alpha --bot-uids --freeze --isolation --margin",
    "rank": "--alpha --bot-uids --freeze --isolation --margin --markdown",
    "tune": "--bot-uids --freeze --isolation",
    "check": "--bot-uids --isolation",
    "show": "--events --frames --speed --store",
    "analyse": "--rollouts --seed",
    "doctor": "--bot-uids",
    "ladder init": "--beta --former-versions --memory --packages --processes --require-cgroups",
    "ladder season": "--beta --former-versions --memory --packages --processes --require-cgroups",
    "ladder submit": "--bot-uids",
    "ladder run": "--bot-uids --cluster --confidence",
    "ladder tournament": "--bot-uids --cluster",
    "ladder serve": "--trusted-proxy",
}
"""Options that only `--help-all` lists, by the command's words."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": ("new mine", "match mine greedy cautious --games 20 --out runs/first", "improve mine"),
    "new": ("mine", "theirs --language node"),
    "check": ("mine", "mine --clock 10ms+1s"),
    "match": (
        "greedy cautious random",
        "mine greedy --games 20 --out runs/first",
        'mine "cmd:node my_bot.js" --games 20 --clock 1s+10s',
    ),
    "play": ("greedy", "mine greedy --games 3 --out runs/mine"),
    "show": (
        "runs/first/game-0001.json",
        "runs/first --html games.html",
        "runs/first/game-0001.json --seat B",
    ),
    "improve": (
        "mine",
        "mine --against steady,diver --minutes 10",
        "new.py --against-version old.py --in-process",
    ),
    "compare": (
        "mine greedy --in-process --until-decided",
        "new.py old.py --field greedy,steady --out runs/new",
    ),
    "debug": (
        "runs/first/game-0001.json mine --seat A",
        "runs/first/game-0001.json mine --seat A --all",
    ),
    "rank": (
        "mine greedy cautious random --in-process",
        "mine greedy cautious random --until-decided --top 1",
    ),
    "tune": (
        "mine,safe=0.5..1.5 --budget 2m --in-process",
        "mine,safe=0.5..1.5 --against greedy,steady --budget 1h --out runs/tune",
    ),
    "analyse": (
        "runs/first/game-0001.json --seat B",
        "runs/first --workers 2 --html analysis.html",
        "runs/first --report --bot mine",
    ),
    "branch": (
        "runs/first/game-0001.json --at 12 --action leave",
        "runs/first/game-0001.json mine greedy --at 12",
    ),
    "verify": ("runs/first", "runs/first/game-0001.json --json"),
    "explain": (
        '"1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17"',
        '"1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17" r4 take',
    ),
    "rules": ("", "publisher"),
    "doctor": ("",),
    "completion": ("bash >> ~/.bashrc",),
    "ladder": ("submit mine --author you", "run --games 20", "standings"),
    "ladder submit": ("mine --author you", "my_bot.py --name second --remote club"),
    "ladder submissions": ("you",),
    "ladder standings": ("", "--best-of-author --csv"),
    "ladder bot": ("mine", "mine --plot mine.svg"),
    "ladder games": ("--bot mine --lost", "--faults --limit 100"),
    "ladder record": ("main-000012",),
    "ladder log": ("main-000012 --seat B",),
    "ladder login": (
        "https://ladder.example.org",
        "https://ladder.example.org --code - --author you",
    ),
    "ladder withdraw": ("mine", 'mine --reason "a new one comes"'),
    "ladder init": (
        "",
        "--isolation process --seats 2 --clock 1s+10s",
        "--season spring --packages numpy",
    ),
    "ladder season": ("summer --seats 2,3,4 --best-of-author",),
    "ladder deadline": ("2027-01-31T18:00Z", "2027-02-01T18:00Z --author you"),
    "ladder pause": ("spring", "spring --undo"),
    "ladder close": ("spring",),
    "ladder disable": ('mine --reason "it forfeits every game"', "mine --undo"),
    "ladder run": ("--games 100", "--until settled", "--forever --workers 2"),
    "ladder tournament": (
        "round-robin cup",
        "elimination knockout mine greedy steady diver --seats 4",
        "final best --seats 4 --top 1",
    ),
    "ladder verdicts": ("mine", "--csv"),
    "ladder analyse": ("main-000012 --wait",),
    "ladder export": ("", "--season main --csv"),
    "ladder serve": ("", "--port 8443 --tls-cert c.pem --tls-key k.pem"),
    "ladder refold": ("", "--records --workers 2"),
    "ladder status": ("",),
    "ladder doctor": ("", "--tls-cert c.pem --tls-key k.pem"),
    "ladder requeue": ("--all", "--run host-1234"),
    "ladder settings": ("", "bots 10", "bots --default"),
    "ladder overview": ("", "--csv"),
    "ladder codes": ("--count 30 --slips", "--authors class.txt --days 7", "--revoke 3"),
    "ladder author": ("list", "reset you"),
    "ladder author list": ("",),
    "ladder author admin": ("--author you",),
    "ladder author tokens": ("you", "you --revoke 3"),
    "ladder author reset": ("you",),
    "ladder author rename": ("you yourself",),
    "ladder author block": ("you", "you --undo"),
    "ladder author anonymise": ("you --yes",),
    "ladder author audit": ("--author you --limit 20",),
    "ladder make-cert": ("certs --host 192.168.1.10",),
    "ladder logout": ("https://ladder.example.org",),
    "ladder whoami": ("",),
    "ladder backup": ("ladder.backup",),
    "ladder restore": ("ladder.backup --dry-run",),
    "ladder upgrade": ("",),
}
"""What follows a command's words in lines that run as they stand, with the bot `mine` of `new`."""
