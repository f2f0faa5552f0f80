import pytest

from tests.requirements import marked, rows
from tests.support.spec import spec_path


def test_every_requirement_that_a_test_names_is_a_row_of_a_checklist(request: pytest.FixtureRequest) -> None:
    assert sorted(marked(request.session.items) - set(rows(spec_path("spec")))) == []


def test_no_row_stands_twice() -> None:
    known = rows(spec_path("spec"))
    assert len(known) == len(set(known)) > 2000
