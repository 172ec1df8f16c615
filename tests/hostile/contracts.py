"""Contract files whose keys, values or text are not those of a contract."""

from __future__ import annotations

from random import Random

from hostile.damage import damaged

FILES = (
    'extends = "stable_reinforce"\nruleset = 1\n[severity]\nSES = "off"\nTOK006 = "error"\n',
    "ruleset = 1\n[parameters]\nvocab_size = 100\ntolerance = 0.001\nwindow = 3600\n",
    'extends = "custom"\n[inputs]\na = 1\n[inputs.b]\nrank = 2\ndtype = "int64"\n',
    'extends = "ppo"\n[parameters]\nlearner_version = 3\nmax_policy_lag = 2\n',
    'extends = "other.toml"\n[severity]\nVAL001 = "warning"\n',
    '[project]\nname = "x"\n[tool.provenance]\nextends = "dro"\n[tool.provenance.severity]\nFMT = "error"\n',
)
#: What ``other.toml`` is, next to the file.
OTHER = 'extends = "stable_reinforce"\n[severity]\nSEQ = "off"\n'
_TOKENS = (
    *("extends", "ruleset", "severity", "parameters", "inputs", "tool.provenance", "rank", "dtype", "VAL001"),
    *(
        '"off"',
        '"error"',
        '"x"',
        '""',
        '"stable_reinforce"',
        '"ppo"',
        '"custom"',
        '"other.toml"',
        '"."',
        '".."',
    ),
    *('"hostile.toml"', '"/dev/zero.toml"', '"/dev/zero"', '"/"', '"\\u0000"', '"\\ud800"', '"é"', "'''x'''"),
    *("0", "1", "-1", "2", "9223372036854775808", "1e400", "nan", "inf", "-inf", "1.5", "true", "1979-05-27"),
    *("[]", "{}", "[1, [2]]", "{ a = 1 }", "[[inputs]]", "[inputs.c]", "[severity.VAL001]", "\0", "\x7f"),
    *("9" * 5000, "[" * 300, "a = " + "[" * 5000, "x" * 3000, ".".join("abc" * 700), "{a=" * 400),
    *("=", ".", "\n", '"', "#", "\r", "[tool.provenance]", "window", "tolerance", "learner_version"),
)


def hostile_contract(rng: Random) -> bytes:
    """A contract file in which something is wrong, and now and then nothing."""
    text = rng.choice(FILES)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        parts = text.replace("\n", " \n ").split(" ")
        i = rng.randrange(len(parts))
        kind = rng.randrange(4)
        if kind == 0:
            parts[i] = rng.choice(_TOKENS)
        elif kind == 1:
            parts.insert(i, rng.choice(_TOKENS))
        elif kind == 2:
            del parts[i]
        else:
            j = rng.randrange(len(parts))
            parts[i], parts[j] = parts[j], parts[i]
        text = " ".join(parts).replace(" \n ", "\n")
    data = text.encode()
    return damaged(data, rng) if rng.random() < 0.2 else data
