"""The configuration: defaults that work, and a file that says what it seems to say."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from muster.api.meta import Wire
from muster.config import reference
from muster.config import settings as config_settings
from muster.config.loading import load, read
from muster.config.settings import Config
from muster.errors import InputError
from muster.planning.policy import Policy

ROOT = Path(__file__).parents[3]


def refused(text: str) -> str:
    with pytest.raises(InputError) as raised:
        read(text.encode(), "muster.yaml")
    return str(raised.value)


@pytest.mark.parametrize("text", ["", "{}", "# nothing yet\n", "webhook:\nlog: {}\n", "log: {level: null}"])
def test_an_empty_file_is_a_good_one(text: str) -> None:
    """Everything has a default."""
    assert read(text.encode(), "muster.yaml") == Config()


def test_stated_settings_replace_the_defaults() -> None:
    """YAML and JSON; what is not said keeps its default."""
    config = read(
        b"scheduling: {namespaces: [a, b], searchSteps: 5000}\nwebhook: {certificates: {validityDays: 60}}", "c"
    )
    assert config.scheduling.namespaces == ("a", "b")
    assert config.policy == Policy(steps=5000)
    assert config.webhook.certificates.validity_days == 60
    assert config.log == config_settings.Log()
    assert read(b'{"log": {"level": "debug"}}', "c").log.level == "debug"


def test_all_problems_are_reported_at_once() -> None:
    """With path and hint, as everywhere."""
    text = """
        webhook: {prot: 1, port: many, timeoutSeconds: 99, certificates: {source: file}}
        leaderElection: {leaseSeconds: 3, leaseName: No_Name}
        schduling: {}
        log: [info]
        scheduling: {namespaces: [a, B_], debounceMilliseconds: 900, dryRun: 3}
    """
    assert refused(text) == (
        "muster.yaml: the configuration is invalid\n"
        "  webhook.prot: is not a setting\n    hint: did you mean `port`?\n"
        "  schduling: is not a setting\n    hint: did you mean `scheduling`?\n"
        "  scheduling.dryRun: expected `true` or `false`, got the number `3`\n"
        "  webhook.port: expected a whole number, got the text `many`\n"
        "  log: expected an object, got a list\n"
        "  leaderElection.leaseName: `No_Name` is not a name that Kubernetes accepts\n"
        "    hint: lower-case letters, digits and `-`, at most 253\n"
        "  webhook.timeoutSeconds: must be between 1 and 30, is 99\n"
        "  webhook.certificates.source: `file` is not one of its words\n    hint: known: generated, files\n"
        "  scheduling.longestDebounceMilliseconds: is less than `debounceMilliseconds`, 900\n    hint: at least 900\n"
        "  scheduling.namespaces: `B_` is not a name that Kubernetes accepts\n"
        "    hint: lower-case letters, digits and `-`, at most 63\n"
        "  leaderElection: needs 2 × retrySeconds < renewDeadlineSeconds < leaseSeconds, has 2, 10, 3\n"
        "    hint: a leader must stop before another may begin; 2, 10, 15 are the defaults"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("webhook: {certificates: {source: files}}", "webhook.certificates.folder: is missing"),
        (
            "webhook: {certificates: {folder: /mine}}",
            "folder: is not read with `source: generated`\n    hint: say `source: files`, or leave it out",
        ),
        (
            "webhook: {certificates: {renewBeforeDays: 90}}",
            "renewBeforeDays: must be less than `validityDays`, 90, is 90",
        ),
        ("webhook: {certificates: {authorityValidityDays: 80}}", "authorityValidityDays: must be more than"),
        ("observability: {port: 9443}", "observability.port: is the webhook's, too: 9443"),
        ("observability: {metricsAccess: token-file}", "observability.metricsTokenFile: is missing"),
        ("observability: {metricsTokenFile: /x}", "observability.metricsTokenFile: is not read"),
        ("tracing: {endpoint: collector:4318}", "tracing.endpoint: is no address"),
        ("observability: {metricsAccess: some}", "`some` is not one of its words"),
        ("observability: {silentWatchSeconds: 5}", "must be between 10 and 3600, is 5"),
        ("scheduling: {searchSteps: 1}", "must be between 1000 and 1000000000, is 1"),
        ("scheduling: {searchSteps: 0x" + "f" * 90 + "}", "far outside"),
        (
            "token: abc",
            "grouping, grove, leaderElection, log, observability, scheduling, tracing, webhook",
        ),
        ("a: 1\n---\nb: 2", "holds 2 documents"),
        ("[1]", "expected an object, got a list"),
        ("a: [", "muster.yaml"),
        ("a: 1\na: 2", "twice"),
    ],
)
def test_contradictory_settings_are_refused(text: str, expected: str) -> None:
    """Alone or together."""
    assert expected in refused(text)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """Missing, a folder, or much too large."""
    with pytest.raises(InputError, match=r"none.yaml: no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "big.yaml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match="is larger than 1 MiB"):
        load(tmp_path / "big.yaml")
    (tmp_path / "good.yaml").write_text("log: {level: error}", encoding="utf-8")
    assert load(tmp_path / "good.yaml").log.level == "error"


def settings(kind: type[Wire], at: str = "") -> list[tuple[str, msgspec.structs.FieldInfo]]:
    fields = []
    for field in msgspec.structs.fields(kind):
        inner = config_settings.struct_of(field)
        fields += settings(inner, f"{at}.{field.encode_name}") if inner else [(f"{at}.{field.encode_name}"[1:], field)]
    return fields


@pytest.mark.parametrize(("at", "field"), settings(Config), ids=lambda value: value if isinstance(value, str) else "")
def test_every_setting_has_a_reason_and_a_unit(at: str, field: msgspec.structs.FieldInfo) -> None:
    """Numbers say what they count; ranges hold their default; all of it stands in the reference."""
    units = re.compile("(Seconds|Milliseconds|Days|Bytes|Steps|Pods|Queues|Viewers|Share|Percent|oncurrency|port)$")
    (note,) = config_settings.notes_of(field)
    assert len(note.description) > 15
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        assert units.search(at), at
        assert note.extra_json_schema["minimum"] <= field.default <= note.extra_json_schema["maximum"]
    assert f"| `{field.encode_name}` |" in reference.reference()


def test_the_example_of_the_reference_is_valid() -> None:
    """People copy it."""
    (example,) = re.findall(r"```yaml\n(.*?)```", reference.reference(), re.DOTALL)
    assert read(example.encode(), "example") == Config()
    assert yaml.safe_load(example)["webhook"]["failurePolicy"] == "Fail"


def test_schedulers_are_named_in_a_list() -> None:
    """N6: several names are ours, an empty list is an error, and the older key gets a hint."""
    assert Config().scheduling.scheduler_names == Config().policy.scheduler_names == ("muster",)
    config = read(b"scheduling: {schedulerNames: [muster, kai-scheduler]}", "c")
    assert config.policy.scheduler_names == ("muster", "kai-scheduler")
    assert refused("scheduling: {schedulerNames: []}").endswith(
        "scheduling.schedulerNames: is empty\n    hint: leave it out for the default, or name at least one"
    )
    assert "`No_Name` is not a name that Kubernetes accepts" in refused("scheduling: {schedulerNames: [No_Name]}")
    assert refused("scheduling: {schedulerName: mine}").endswith(
        "scheduling.schedulerName: is not a setting\n    hint: it is a list now: `schedulerNames: [muster]`"
    )


@pytest.mark.parametrize(
    ("resource", "hint"),
    [
        ("job.batch", "did you mean `jobs.batch`?"),
        ("widgets.example.com", "describe its kind in `grouping.kinds`"),
    ],
)
def test_an_owner_of_no_known_kind_is_refused(tmp_path: Path, resource: str, hint: str) -> None:
    """It would be listed, and yet never be read."""
    path = tmp_path / "config.yaml"
    path.write_text(f"grouping:\n  owners: [{resource}]\n")
    with pytest.raises(InputError) as refused:
        load(path)
    assert f"grouping.owners: `{resource}` belongs to no kind that muster knows" in str(refused.value)
    assert hint in str(refused.value)


def test_a_kind_of_ones_own_may_be_listed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    kind = "{apiVersion: example.com/v1, kind: Widget, resource: widgets}"
    path.write_text(f"grouping:\n  owners: [widgets.example.com, jobs.batch]\n  kinds: [{kind}]\n")
    assert load(path).grouping.resources == ("widgets.example.com", "jobs.batch")
