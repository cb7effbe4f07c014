"""What Gymnasium is told of the environments."""

import subprocess
import sys

import gymnasium

from leanfast.envs import registration
from leanfast.envs.registry import builtin


def test_every_header_is_registered_with_its_time_limit():
    specs = [definition.spec() for definition in builtin().values()]
    assert {s["name"]: s["max_episode_steps"] for s in specs} == registration.TIME_LIMITS
    for name, limit in registration.TIME_LIMITS.items():
        assert gymnasium.spec(f"leanfast/{name}").max_episode_steps == limit


def test_importing_the_package_registers_in_either_order():
    for imports in ("gymnasium, leanfast", "leanfast, gymnasium"):
        code = f"import {imports}; gymnasium.spec('leanfast/Pendulum-v1')"
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_id_alone_may_name_the_module():
    code = "import gymnasium; gymnasium.make_vec('leanfast:leanfast/CartPole-v1', num_envs=2)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_registering_loads_neither_torch_nor_compiled_code_and_works_twice():
    code = (
        "import sys, gymnasium; from leanfast.envs.registration import register; register();"
        "register(); assert 'leanfast/CartPole-v1' in gymnasium.registry;"
        "assert not {'torch', 'leanfast._native'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
