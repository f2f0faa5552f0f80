"""Accounts, for administrators."""

from tests.support.frontend import Running


async def test_an_account_is_made_given_features_and_deleted(api: Running) -> None:
    admin = api.admin
    made = await admin.post("/api/users", {"name": "Ada", "password": "long enough"}, status=201)
    assert (made["role"], made["features"], made["enabled"]) == ("user", ["chats"], True)
    assert "password_hash" not in made
    given = await admin.call("PUT", f"/api/users/{made['id']}/features", {"features": ["agents", "addons"]})
    assert given[1]["features"] == ["addons", "agents"]
    listed = await admin.get("/api/users")
    assert [user["name"] for user in listed["users"]] == ["root", "Ada"]
    assert "connectors" in listed["features"]
    await admin.delete(f"/api/users/{made['id']}")
    await admin.refused(404, "GET", f"/api/users/{made['id']}")


async def test_names_are_unique_without_case(api: Running) -> None:
    error = await api.admin.refused(409, "POST", "/api/users", {"name": "ROOT"})
    assert error["param"] == "name"


async def test_what_is_no_feature_and_no_password_is_refused(api: Running) -> None:
    for body, param in [
        ({"name": "a", "features": ["flying"]}, "features[0]"),
        ({"name": "a", "password": "short"}, "password"),
        ({"name": "a", "role": "king"}, "role"),
    ]:
        assert (await api.admin.refused(400, "POST", "/api/users", body))["param"] == param


async def test_the_last_administrator_stays(api: Running) -> None:
    me = (await api.admin.get("/api/auth/me"))["user"]["id"]
    await api.admin.refused(409, "POST", f"/api/users/{me}/disable")
    await api.admin.refused(409, "DELETE", f"/api/users/{me}")
    other = await api.person("Second", role="admin")
    await other.post(f"/api/users/{me}/disable")
    assert (await api.admin.refused(401, "GET", "/api/auth/me"))["type"] == "authentication_error"


async def test_acts_leave_a_row_that_quotes_nothing(api: Running) -> None:
    made = await api.admin.post("/api/users", {"name": "Ada", "password": "long enough"}, status=201)
    row = await api.database.fetchrow("SELECT act, object, facts FROM audit ORDER BY id DESC LIMIT 1")
    assert (row["act"], row["object"], row["facts"]) == ("user.add", made["id"], {"role": "user"})
