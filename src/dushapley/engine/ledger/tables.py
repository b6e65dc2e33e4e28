"""What a ledger declares, to the letter, and the statements that fill it."""

from __future__ import annotations

FORMAT = "dushapley.ledger/3"
SCHEMA = {
    "about": "CREATE TABLE about (name text primary key, value text not null) without rowid",
    "evaluations": "CREATE TABLE evaluations (key blob primary key, value text not null, "
    "failure text, spread text, rows text, seal blob not null) without rowid",
    "scores": "CREATE TABLE scores (key blob primary key, packed blob not null, "
    "seal blob not null)",  # with row numbers: what is large is appended, not sorted in
}
MEMBERS = {
    "pools": "CREATE TABLE pools (roster blob, key blob, members blob not null, "
    "primary key (roster, key)) without rowid",
    "beginnings": "CREATE TABLE beginnings (run blob primary key, members blob not null) "
    "without rowid",
}
"""Which of whose owners a pool held, and with which pools a run began: a key does not tell."""
BLOCKS = {"blocks": "CREATE TABLE blocks (roster blob not null, members blob not null)"}
"""The same of pools that were paid by the block, in one piece."""
PLAIN = {"plain": "CREATE TABLE plain (id integer primary key, body blob not null)"}
"""Values and nothing else, the common case: found by a number, which a tree sorts fastest."""
OLDEST = {**SCHEMA, "sqlite_autoindex_scores_1": None}
DECLARATIONS = (OLDEST, OLDEST | MEMBERS, OLDEST | MEMBERS | BLOCKS)
DECLARED = OLDEST | MEMBERS | BLOCKS | PLAIN
"""All that a ledger declares, as SQLite tells it; older ones lack members, blocks or values."""
TABLES = SCHEMA | MEMBERS | BLOCKS | PLAIN

INSERT = """
insert into evaluations values (?, ?, ?, ?, ?, ?) on conflict (key) do update set
    value = excluded.value, failure = excluded.failure, spread = excluded.spread,
    rows = excluded.rows, seal = excluded.seal
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
INSERT_SCORES = """
insert or replace into scores select ?1, ?2, ?3
where ?4 = (select seal from evaluations where key = ?1)
"""  # of the evaluation that stands
ROWS = 32
"""Plain values written by one statement."""
INSERT_PLAIN = "insert or ignore into plain values (?, ?)"
INSERT_ROWS = INSERT_PLAIN + (ROWS - 1) * ", (?, ?)"
SELECT_SCORES = """
select evaluations.key, rows, packed, scores.seal
from evaluations left join scores on scores.key = evaluations.key
where rows is not null and evaluations.key in """


def is_ledger(declared: dict[str, str | None]) -> bool:
    """Whether a file declares what a ledger of today or of earlier days does, and nothing else."""
    return declared == DECLARED or declared in DECLARATIONS
