"""Roles and databases of a PostgreSQL server; on the Python framework `tf` (protocol 6, unix socket, TLS).

A provider for the tests with a real back end. What it knows of a resource it asks the server for, every time.
"""

import pg8000.native
from pg8000.native import identifier, literal
from tf import types
from tf.iface import Config, DataSource, Provider, Resource, State
from tf.runner import run_provider
from tf.schema import Attribute, Schema
from tf.utils import Diagnostics


class PostgreSql(Provider):
    def __init__(self):
        self.address = None

    def get_model_prefix(self):
        return "postgresql_"

    def full_name(self):
        return "example.com/test/postgresql"

    def get_provider_schema(self, diags: Diagnostics):
        return Schema(
            attributes=[
                Attribute("host", types.String(), required=True),
                Attribute("port", types.Number(), required=True),
                Attribute("user", types.String(), required=True),
                Attribute("password", types.String(), optional=True, sensitive=True),
            ]
        )

    def validate_config(self, diags: Diagnostics, config: Config):
        pass

    def configure_provider(self, diags: Diagnostics, config: Config):
        self.address = config
        try:
            self.run("SELECT 1")
        except Exception as error:
            diags.add_error("the server refuses the connection", str(error)[:200])

    def get_data_sources(self) -> list[type[DataSource]]:
        return []

    def get_resources(self) -> list[type[Resource]]:
        return [Role, Database]

    def run(self, sql):
        connection = pg8000.native.Connection(
            user=self.address["user"],
            password=self.address["password"],
            host=self.address["host"],
            port=int(self.address["port"]),
            database="postgres",
        )
        try:
            return connection.run(sql)
        finally:
            connection.close()


class Role(Resource):
    def __init__(self, provider):
        self.run = provider.run

    @classmethod
    def get_name(cls):
        return "role"

    @classmethod
    def get_schema(cls):
        return Schema(
            version=1,
            attributes=[
                Attribute("id", types.String(), computed=True),
                Attribute("name", types.String(), required=True, requires_replace=True),
                Attribute("login", types.Bool(), optional=True, computed=True, default=False),
                Attribute("connection_limit", types.Number(), optional=True, computed=True, default=-1),
                Attribute("password", types.String(), optional=True, sensitive=True),
            ],
        )

    def options(self, planned: State):
        words = ["LOGIN" if planned["login"] else "NOLOGIN"]
        words.append(f"CONNECTION LIMIT {int(planned['connection_limit'])}")
        if planned["password"] is not None:
            words.append(f"PASSWORD {literal(planned['password'])}")
        return " ".join(words)

    def create(self, ctx, planned: State):
        try:
            self.run(f"CREATE ROLE {identifier(planned['name'])} {self.options(planned)}")
        except Exception as error:
            ctx.diagnostics.add_error("the role cannot be created", str(error)[:200])
            return None
        return {**planned, "id": planned["name"]}

    def look(self, name, password=None):
        found = self.run(
            f"SELECT rolcanlogin, rolconnlimit FROM pg_roles WHERE rolname = {literal(name)}"
        )
        if not found:
            return None
        login, limit = found[0]
        return {"id": name, "name": name, "login": login, "connection_limit": limit, "password": password}

    def read(self, ctx, current: State):
        return self.look(current["id"] or current["name"], current["password"])

    def update(self, ctx, current: State, planned: State):
        self.run(f"ALTER ROLE {identifier(current['name'])} {self.options(planned)}")
        return {**planned, "id": current["id"]}

    def delete(self, ctx, current: State):
        self.run(f"DROP ROLE IF EXISTS {identifier(current['name'])}")

    def import_(self, ctx, id):
        found = self.look(id)
        if found is None:
            ctx.diagnostics.add_error("there is no such role", id)
        return found

    def upgrade(self, ctx, version, old: State):
        return old


class Database(Resource):
    def __init__(self, provider):
        self.run = provider.run

    @classmethod
    def get_name(cls):
        return "database"

    @classmethod
    def get_schema(cls):
        return Schema(
            version=1,
            attributes=[
                Attribute("id", types.String(), computed=True),
                Attribute("name", types.String(), required=True, requires_replace=True),
                Attribute("owner", types.String(), optional=True, computed=True),
            ],
        )

    def create(self, ctx, planned: State):
        owner = f" OWNER {identifier(planned['owner'])}" if isinstance(planned["owner"], str) else ""
        try:
            self.run(f"CREATE DATABASE {identifier(planned['name'])}{owner}")
        except Exception as error:
            ctx.diagnostics.add_error("the database cannot be created", str(error)[:200])
            return None
        return self.look(planned["name"])

    def look(self, name):
        found = self.run(
            "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = " + literal(name)
        )
        return {"id": name, "name": name, "owner": found[0][0]} if found else None

    def read(self, ctx, current: State):
        return self.look(current["id"] or current["name"])

    def update(self, ctx, current: State, planned: State):
        self.run(f"ALTER DATABASE {identifier(current['name'])} OWNER TO {identifier(planned['owner'])}")
        return self.look(current["name"])

    def delete(self, ctx, current: State):
        self.run(f"DROP DATABASE IF EXISTS {identifier(current['name'])}")

    def import_(self, ctx, id):
        found = self.look(id)
        if found is None:
            ctx.diagnostics.add_error("there is no such database", id)
        return found

    def upgrade(self, ctx, version, old: State):
        return old


if __name__ == "__main__":
    run_provider(PostgreSql())
