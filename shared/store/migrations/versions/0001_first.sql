-- People ---------------------------------------------------------------------------------------------

CREATE TABLE users (
  id            text PRIMARY KEY,
  name          text NOT NULL,
  password_hash text,
  role          text NOT NULL CHECK (role IN ('admin', 'user')),
  created_at    timestamptz NOT NULL DEFAULT now(),
  disabled_at   timestamptz
);

CREATE UNIQUE INDEX users_name ON users (lower(name));

CREATE TABLE features (
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  feature text NOT NULL,
  PRIMARY KEY (user_id, feature)
);

CREATE TABLE sessions (
  token_hash bytea PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  csrf       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE sign_in_links (
  token_hash bytea PRIMARY KEY,
  user_id    text REFERENCES users ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

CREATE TABLE api_keys (
  id         text PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  name       text NOT NULL,
  key_hash   bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now(),
  used_at    timestamptz
);

CREATE INDEX api_keys_user ON api_keys (user_id);

CREATE TABLE quotas (
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  period  text NOT NULL CHECK (period IN ('hour', 'day', 'month')),
  tokens  bigint NOT NULL,
  PRIMARY KEY (user_id, period)
);

CREATE TABLE model_allowlist (
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  model   text NOT NULL,
  PRIMARY KEY (user_id, model)
);

-- Usage is added up per hour, so that a quota is one short scan and rows stay few.
CREATE TABLE usage (
  user_id           text NOT NULL REFERENCES users ON DELETE CASCADE,
  model             text NOT NULL,
  hour              timestamptz NOT NULL,
  requests          bigint NOT NULL DEFAULT 0,
  prompt_tokens     bigint NOT NULL DEFAULT 0,
  completion_tokens bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (user_id, model, hour)
);

-- Agents and chats -----------------------------------------------------------------------------------

CREATE TABLE agents (
  id           text PRIMARY KEY,
  user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
  name         text NOT NULL,
  description  text NOT NULL DEFAULT '',
  model        text NOT NULL DEFAULT '',
  instructions text NOT NULL DEFAULT '',
  tools        boolean NOT NULL DEFAULT true,
  addons       text[] NOT NULL DEFAULT '{}',
  grants       text[] NOT NULL DEFAULT '{}',
  settings     jsonb NOT NULL DEFAULT '{}',
  revision     bigint NOT NULL DEFAULT 1,
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX agents_name ON agents (user_id, lower(name));

-- One conversation. `epoch` fences turns: every write of a turn names the epoch it was claimed with.
-- `next_seq` numbers messages; `last_user_seq` is the newest message that needs an answer and
-- `covered_seq` the newest one that a finished turn has read, so "unread" is one comparison.
CREATE TABLE chats (
  id            text PRIMARY KEY,
  user_id       text NOT NULL REFERENCES users ON DELETE CASCADE,
  agent_id      text REFERENCES agents ON DELETE SET NULL,
  binding_id    text,
  kind          text NOT NULL DEFAULT '',
  platform_chat text NOT NULL DEFAULT '',
  thread        text NOT NULL DEFAULT '',
  direct        boolean NOT NULL DEFAULT true,
  chat_name     text NOT NULL DEFAULT '',
  link          text NOT NULL DEFAULT '',
  title         text NOT NULL DEFAULT '',
  model         text NOT NULL DEFAULT '',
  history       jsonb,
  next_seq      bigint NOT NULL DEFAULT 1,
  last_user_seq bigint NOT NULL DEFAULT 0,
  covered_seq   bigint NOT NULL DEFAULT 0,
  epoch         bigint NOT NULL DEFAULT 0,
  turn_id       bigint,
  waiting_since timestamptz,
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX chats_user ON chats (user_id, updated_at DESC);

CREATE INDEX chats_binding ON chats (binding_id) WHERE binding_id IS NOT NULL;

-- What waits for a turn: the sweep reads this index and nothing else.
CREATE INDEX chats_waiting ON chats (waiting_since) WHERE last_user_seq > covered_seq;

CREATE TABLE messages (
  chat_id     text NOT NULL,
  seq         bigint NOT NULL,
  role        text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'note')),
  content     text NOT NULL DEFAULT '',
  data        jsonb NOT NULL DEFAULT '{}',
  turn_id     bigint,
  sender_id   text NOT NULL DEFAULT '',
  sender_name text NOT NULL DEFAULT '',
  badge       text NOT NULL DEFAULT '',
  inbound_id  bigint,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (chat_id, seq)
);

CREATE TABLE notes (
  id         text PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  agent_id   text REFERENCES agents ON DELETE CASCADE,
  subject    text NOT NULL DEFAULT '',
  content    text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE files (
  id         text PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  chat_id    text REFERENCES chats ON DELETE CASCADE,
  name       text NOT NULL,
  mime       text NOT NULL,
  size       bigint NOT NULL,
  sha256     bytea,
  platform   jsonb,
  content    bytea,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Bindings -------------------------------------------------------------------------------------------

-- `account_epoch` grows when the upstream account changes: message IDs of another bot are other messages.
CREATE TABLE bindings (
  id                     text PRIMARY KEY,
  user_id                text NOT NULL REFERENCES users ON DELETE CASCADE,
  agent_id               text REFERENCES agents ON DELETE SET NULL,
  kind                   text NOT NULL,
  addon                  text NOT NULL DEFAULT '',
  name                   text NOT NULL,
  enabled                boolean NOT NULL DEFAULT false,
  off_reason             text NOT NULL DEFAULT '',
  allow                  text[] NOT NULL DEFAULT '{}',
  allow_trust            text NOT NULL DEFAULT 'answer' CHECK (allow_trust IN ('answer', 'act')),
  accept_any             boolean NOT NULL DEFAULT false,
  caps                   text[] NOT NULL DEFAULT '{}',
  grants                 jsonb NOT NULL DEFAULT '[]',
  channels               jsonb NOT NULL DEFAULT '[]',
  notify_chat            text NOT NULL DEFAULT '',
  approval               jsonb NOT NULL DEFAULT '{}',
  reply_mode             text NOT NULL DEFAULT 'progress' CHECK (reply_mode IN ('progress', 'stream', 'off')),
  conversation           text NOT NULL DEFAULT 'sender' CHECK (conversation IN ('sender', 'chat', 'window', 'thread')),
  window_minutes         integer NOT NULL DEFAULT 60 CHECK (window_minutes BETWEEN 1 AND 10080),
  send_files             boolean NOT NULL DEFAULT true,
  reply_language         text NOT NULL DEFAULT 'auto',
  ui_language            text NOT NULL DEFAULT '',
  options                jsonb NOT NULL DEFAULT '{}',
  resources              text[] NOT NULL DEFAULT '{}',
  write_mode             text NOT NULL DEFAULT '',
  file_receive_max_bytes bigint NOT NULL DEFAULT 0,
  file_send_max_bytes    bigint NOT NULL DEFAULT 0,
  auth_kind              text NOT NULL DEFAULT 'token' CHECK (auth_kind IN ('token', 'oauth2')),
  account_id             text NOT NULL DEFAULT '',
  account_name           text NOT NULL DEFAULT '',
  account_epoch          integer NOT NULL DEFAULT 1,
  revision               bigint NOT NULL DEFAULT 1,
  created_at             timestamptz NOT NULL DEFAULT now(),
  updated_at             timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX bindings_user ON bindings (user_id);

CREATE INDEX bindings_agent ON bindings (agent_id);

CREATE INDEX bindings_account ON bindings (user_id, kind, account_id) WHERE account_id <> '';

-- A table of its own, so that nothing that lists bindings can ever read a token.
CREATE TABLE binding_secrets (
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  name       text NOT NULL,
  sealed     text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (binding_id, name)
);

-- The read position. A leader claims it with its term before it polls, and writes only what it has claimed: `term` is
-- the guard against a stale one, `claimed_at` when the present term took it. Then what is known of the link: the last
-- completed poll, the last time anything was heard from the platform, the present failure and since when.
CREATE TABLE binding_cursor (
  binding_id    text PRIMARY KEY REFERENCES bindings ON DELETE CASCADE,
  account_epoch integer NOT NULL DEFAULT 1,
  position      text NOT NULL DEFAULT '',
  term          bigint NOT NULL DEFAULT 0,
  claimed_at    timestamptz,
  moved_at      timestamptz,
  polled_at     timestamptz,
  heard_at      timestamptz,
  failure       text NOT NULL DEFAULT '',
  failing_since timestamptz,
  held_until    timestamptz,
  duplicates    bigint NOT NULL DEFAULT 0
);

CREATE TABLE senders (
  binding_id  text NOT NULL,
  sender_id   text NOT NULL,
  name        text NOT NULL DEFAULT '',
  handle      text NOT NULL DEFAULT '',
  count       bigint NOT NULL DEFAULT 0,
  chat        text NOT NULL DEFAULT '',
  chat_name   text NOT NULL DEFAULT '',
  reason      text NOT NULL DEFAULT '',
  language    text NOT NULL DEFAULT '',
  language_at timestamptz,
  noticed_at  timestamptz,
  first_at    timestamptz NOT NULL DEFAULT now(),
  last_at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (binding_id, sender_id)
);

-- Which chat a sender, a thread, a group or a message of the bot leads to; `key` says which of them it is.
CREATE TABLE sender_chats (
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  key        text NOT NULL,
  chat_id    text NOT NULL REFERENCES chats ON DELETE CASCADE,
  agent_id   text NOT NULL DEFAULT '',
  last_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (binding_id, key)
);

CREATE TABLE pairings (
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  sender_id  text NOT NULL,
  name       text NOT NULL DEFAULT '',
  paired_at  timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (binding_id, sender_id)
);

CREATE TABLE pairing_codes (
  code_hash  bytea PRIMARY KEY,
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  expires_at timestamptz NOT NULL,
  used_at    timestamptz
);

CREATE TABLE pairing_attempts (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  sender_id  text NOT NULL,
  result     text NOT NULL,
  at         timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX pairing_attempts_recent ON pairing_attempts (binding_id, sender_id, at);

-- Add-ons --------------------------------------------------------------------------------------------

CREATE TABLE addon_installs (
  id                    text PRIMARY KEY,
  version               text NOT NULL,
  digest                text NOT NULL,
  source                text NOT NULL,
  generation            bigint NOT NULL DEFAULT 1,
  enabled               boolean NOT NULL DEFAULT true,
  manifest              jsonb NOT NULL,
  approved_login_digest text NOT NULL DEFAULT '',
  installed_at          timestamptz NOT NULL DEFAULT now(),
  installed_by          text NOT NULL DEFAULT ''
);

-- Events that a platform wants acknowledged at once (Slack, Discord) are stored here BEFORE that.
CREATE TABLE addon_queue (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  addon      text NOT NULL,
  binding_id text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  event_key  text NOT NULL,
  event      jsonb NOT NULL,
  session    jsonb,
  stored_at  timestamptz NOT NULL DEFAULT now(),
  UNIQUE (binding_id, event_key)
);

-- From platform to answer ----------------------------------------------------------------------------

-- One row a conversation place: admission locks it, deliveries are numbered by it.
CREATE TABLE lanes (
  binding_id    text NOT NULL,
  platform_chat text NOT NULL,
  next_delivery bigint NOT NULL DEFAULT 1,
  moved_to      text NOT NULL DEFAULT '',
  PRIMARY KEY (binding_id, platform_chat)
);

-- `message_key` is the platform's message ID, else the ID of the event that carried it.
-- `body` is the whole message while it waits; what is refused or consumed is erased with the decision.
CREATE TABLE inbound (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  binding_id    text NOT NULL,
  account_epoch integer NOT NULL,
  platform_chat text NOT NULL,
  message_key   text NOT NULL,
  thread        text NOT NULL DEFAULT '',
  sender_id     text NOT NULL,
  body          jsonb,
  state         text NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'admitted', 'refused', 'consumed', 'unaddressed')),
  reason        text NOT NULL DEFAULT '',
  term          bigint NOT NULL DEFAULT 0,
  chat_id       text,
  received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  decided_at    timestamptz,
  UNIQUE (binding_id, account_epoch, platform_chat, message_key)
);

CREATE INDEX inbound_new ON inbound (binding_id, platform_chat, id) WHERE state = 'new';

-- What counts towards the rate of a sender.
CREATE INDEX inbound_rate ON inbound (binding_id, sender_id, decided_at)
  WHERE state IN ('admitted', 'consumed') OR reason = 'too_long';

CREATE SEQUENCE turn_ids;

-- A turn holds its chat while `state` is running. Its lease is the one of the frontend that holds it.
-- Tokens stand here, so that counting usage never makes turns of one user wait for each other.
CREATE TABLE turns (
  id          bigint PRIMARY KEY DEFAULT nextval('turn_ids'),
  chat_id     text NOT NULL,
  user_id     text NOT NULL,
  agent_id    text NOT NULL DEFAULT '',
  binding_id  text NOT NULL DEFAULT '',
  epoch       bigint NOT NULL,
  holder      text NOT NULL,
  state       text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed')),
  origin      text NOT NULL DEFAULT 'message' CHECK (origin IN ('message', 'web', 'trigger', 'loop')),
  present     text[] NOT NULL DEFAULT '{}',
  acts        jsonb NOT NULL DEFAULT '{}',
  requests    integer NOT NULL DEFAULT 0,
  read_seq    bigint NOT NULL DEFAULT 0,
  answer_seq  bigint,
  prompt_tokens     bigint NOT NULL DEFAULT 0,
  completion_tokens bigint NOT NULL DEFAULT 0,
  takeovers   integer NOT NULL DEFAULT 0,
  error       text NOT NULL DEFAULT '',
  started_at  timestamptz NOT NULL DEFAULT now(),
  ended_at    timestamptz
);

CREATE INDEX turns_running ON turns (holder) WHERE state = 'running';

CREATE INDEX turns_chat ON turns (chat_id, id DESC);

CREATE TABLE turn_senders (
  turn_id   bigint NOT NULL,
  sender_id text NOT NULL,
  name      text NOT NULL DEFAULT '',
  PRIMARY KEY (turn_id, sender_id)
);

-- What the owner sends, in order for a (binding, platform chat). `target_id` is the delivery whose message
-- is edited. `owner_term` is who executes it; a result is recorded only for that term. `resent_as` is the delivery
-- that the owner of the binding had sent in place of this one.
CREATE TABLE deliveries (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  binding_id    text NOT NULL,
  platform_chat text NOT NULL,
  seq           bigint NOT NULL,
  thread        text NOT NULL DEFAULT '',
  reply_to      text NOT NULL DEFAULT '',
  chat_id       text,
  turn_id       bigint,
  epoch         bigint NOT NULL DEFAULT 0,
  part          integer NOT NULL DEFAULT 0,
  purpose       text NOT NULL CHECK (purpose IN ('working', 'answer', 'notice', 'notification', 'message')),
  action        text NOT NULL CHECK (action IN ('send', 'edit', 'delete')),
  target_id     bigint,
  body          jsonb NOT NULL,
  state         text NOT NULL DEFAULT 'planned'
                CHECK (state IN ('planned', 'sending', 'sent', 'failed', 'unknown', 'dismissed', 'resent')),
  owner_term    bigint NOT NULL DEFAULT 0,
  attempts      integer NOT NULL DEFAULT 0,
  not_before    timestamptz,
  platform_id   text NOT NULL DEFAULT '',
  error         jsonb,
  resent_as     bigint,
  planned_at    timestamptz NOT NULL DEFAULT now(),
  started_at    timestamptz,
  finished_at   timestamptz
);

CREATE UNIQUE INDEX deliveries_open ON deliveries (binding_id, platform_chat, seq) WHERE state IN ('planned', 'sending');

CREATE INDEX deliveries_doubtful ON deliveries (binding_id, id) WHERE state IN ('failed', 'unknown');

CREATE INDEX deliveries_platform ON deliveries (binding_id, platform_chat, platform_id) WHERE platform_id <> '';

CREATE INDEX deliveries_working ON deliveries (turn_id) WHERE purpose = 'working';

-- The tables that every message writes have no foreign keys: each check costs a look-up and a lock on the row of
-- its parent. Their rows are only written under a lock of the parent, and they go with it by these triggers.

CREATE FUNCTION forget_binding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM inbound WHERE binding_id = OLD.id;
  DELETE FROM deliveries WHERE binding_id = OLD.id;
  DELETE FROM lanes WHERE binding_id = OLD.id;
  DELETE FROM senders WHERE binding_id = OLD.id;
  RETURN OLD;
END $$;

CREATE TRIGGER forget_binding AFTER DELETE ON bindings FOR EACH ROW EXECUTE FUNCTION forget_binding();

CREATE FUNCTION forget_chat() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM turn_senders s USING turns t WHERE t.chat_id = OLD.id AND s.turn_id = t.id;
  DELETE FROM turns WHERE chat_id = OLD.id;
  DELETE FROM messages WHERE chat_id = OLD.id;
  RETURN OLD;
END $$;

CREATE TRIGGER forget_chat AFTER DELETE ON chats FOR EACH ROW EXECUTE FUNCTION forget_chat();

-- Operations, proposals, triggers --------------------------------------------------------------------

-- The ledger of tool calls: stored before the call, so that a repetition attaches to it.
CREATE TABLE operations (
  id          text PRIMARY KEY,
  turn_id     bigint,
  binding_id  text NOT NULL DEFAULT '',
  user_id     text NOT NULL,
  addon       text NOT NULL,
  tool        text NOT NULL,
  phase       text NOT NULL,
  arguments   jsonb NOT NULL,
  state       text NOT NULL CHECK (state IN ('started', 'done', 'failed', 'unknown')),
  owner_term  bigint NOT NULL DEFAULT 0,
  result      jsonb,
  started_at  timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);

CREATE INDEX operations_turn ON operations (turn_id);

CREATE TABLE proposals (
  id           text PRIMARY KEY,
  sort         text NOT NULL,
  user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
  asker        text NOT NULL DEFAULT '',
  binding_id   text NOT NULL DEFAULT '',
  chat_id      text,
  platform_chat text NOT NULL DEFAULT '',
  thread       text NOT NULL DEFAULT '',
  code         text NOT NULL DEFAULT '',
  state        text NOT NULL DEFAULT 'waiting',
  content      jsonb NOT NULL,
  content_hash bytea NOT NULL,
  undo         jsonb,
  operation_id text NOT NULL DEFAULT '',
  created_at   timestamptz NOT NULL DEFAULT now(),
  expires_at   timestamptz,
  decided_at   timestamptz,
  decided_by   text NOT NULL DEFAULT ''
);

CREATE INDEX proposals_waiting ON proposals (binding_id, platform_chat) WHERE state = 'waiting';

CREATE TABLE triggers (
  id         text PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  agent_id   text REFERENCES agents ON DELETE SET NULL,
  binding_id text NOT NULL DEFAULT '',
  chat_id    text,
  name       text NOT NULL,
  enabled    boolean NOT NULL DEFAULT true,
  schedule   text NOT NULL,
  timezone   text NOT NULL DEFAULT 'UTC',
  prompt     text NOT NULL,
  delivery   jsonb NOT NULL DEFAULT '{}',
  next_at    timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX triggers_due ON triggers (next_at) WHERE enabled;

CREATE TABLE trigger_runs (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  trigger_id text NOT NULL REFERENCES triggers ON DELETE CASCADE,
  due_at     timestamptz NOT NULL,
  turn_id    bigint,
  state      text NOT NULL DEFAULT 'due',
  reason     text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (trigger_id, due_at)
);

CREATE TABLE waits (
  id         text PRIMARY KEY,
  chat_id    text NOT NULL REFERENCES chats ON DELETE CASCADE,
  sort       text NOT NULL,
  due_at     timestamptz,
  state      text NOT NULL DEFAULT 'waiting',
  data       jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE loops (
  id         text PRIMARY KEY,
  chat_id    text NOT NULL REFERENCES chats ON DELETE CASCADE,
  interval_s integer NOT NULL,
  runs_left  integer NOT NULL,
  prompt     text NOT NULL,
  next_at    timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Sharing, logins, MCP -------------------------------------------------------------------------------

CREATE TABLE shares (
  resource_id text NOT NULL,
  binding_id  text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  grantee     text NOT NULL REFERENCES users ON DELETE CASCADE,
  role        text NOT NULL DEFAULT 'use',
  owner_term  bigint NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (resource_id, grantee)
);

CREATE TABLE oauth_clients (
  addon         text PRIMARY KEY,
  client_id     text NOT NULL,
  sealed_secret text NOT NULL DEFAULT '',
  login_digest  text NOT NULL,
  approved_by   text NOT NULL,
  approved_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE oauth_flows (
  state_hash  bytea PRIMARY KEY,
  binding_id  text NOT NULL REFERENCES bindings ON DELETE CASCADE,
  user_id     text NOT NULL,
  browser     bytea NOT NULL,
  sealed      text NOT NULL,
  return_to   text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  expires_at  timestamptz NOT NULL
);

-- A refresh is claimed (version, owner term) before the HTTP call; a result counts only against that claim.
CREATE TABLE oauth_logins (
  binding_id   text PRIMARY KEY REFERENCES bindings ON DELETE CASCADE,
  version      bigint NOT NULL DEFAULT 1,
  sealed       text NOT NULL,
  account      text NOT NULL DEFAULT '',
  scopes       text[] NOT NULL DEFAULT '{}',
  expires_at   timestamptz,
  state        text NOT NULL DEFAULT 'connected',
  claim_version bigint,
  claim_term   bigint,
  updated_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE mcp_connectors (
  id         text PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  name       text NOT NULL,
  transport  text NOT NULL CHECK (transport IN ('http', 'stdio')),
  address    text NOT NULL DEFAULT '',
  settings   jsonb NOT NULL DEFAULT '{}',
  sealed     jsonb NOT NULL DEFAULT '{}',
  enabled    boolean NOT NULL DEFAULT true,
  revision   bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX mcp_connectors_name ON mcp_connectors (user_id, lower(name));

-- Notices, decisions, audit --------------------------------------------------------------------------

CREATE TABLE notifications (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
  sort       text NOT NULL,
  title      text NOT NULL,
  body       text NOT NULL,
  link       text NOT NULL DEFAULT '',
  binding_id text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  read_at    timestamptz,
  forwarded_at timestamptz
);

CREATE INDEX notifications_user ON notifications (user_id, id DESC);

CREATE INDEX notifications_to_forward ON notifications (id) WHERE forwarded_at IS NULL;

-- An outage makes thousands of parts doubtful; their owner hears of it once, until they have read it.
CREATE UNIQUE INDEX notifications_undelivered ON notifications (binding_id)
  WHERE sort = 'undelivered' AND read_at IS NULL;

-- One row a turn, chained per binding: `chain` is the hash over the row before and this one.
CREATE TABLE decisions (
  binding_id text NOT NULL,
  n          bigint NOT NULL,
  turn_id    bigint,
  rules      text NOT NULL,
  inputs     jsonb NOT NULL,
  results    jsonb NOT NULL,
  chain      bytea NOT NULL,
  at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (binding_id, n)
);

CREATE TABLE audit (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      timestamptz NOT NULL DEFAULT now(),
  actor   text NOT NULL,
  act     text NOT NULL,
  object  text NOT NULL DEFAULT '',
  result  text NOT NULL DEFAULT 'ok',
  facts   jsonb NOT NULL DEFAULT '{}'
);

CREATE INDEX audit_at ON audit (at);

-- The cluster ----------------------------------------------------------------------------------------

CREATE TABLE settings (
  key        text PRIMARY KEY,
  value      jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE SEQUENCE terms;

-- A term only grows, over all leases. `renewed_at` is on the database clock.
CREATE TABLE leases (
  name        text NOT NULL,
  shard       integer NOT NULL DEFAULT 0,
  term        bigint NOT NULL DEFAULT 0,
  holder      text NOT NULL DEFAULT '',
  backend_pid integer NOT NULL DEFAULT 0,
  renewed_at  timestamptz NOT NULL DEFAULT 'epoch',
  released    boolean NOT NULL DEFAULT true,
  PRIMARY KEY (name, shard)
);

-- `lock_key` is the session advisory lock that a living frontend holds; `lease_until` catches a stopped one.
-- `candidate`: it leads shards when they are given to it; not before it has started, nor once it stops.
CREATE TABLE frontends (
  id          text PRIMARY KEY,
  lock_key    integer GENERATED ALWAYS AS IDENTITY UNIQUE,
  version     text NOT NULL,
  url         text NOT NULL DEFAULT '',
  started_at  timestamptz NOT NULL DEFAULT now(),
  seen_at     timestamptz NOT NULL DEFAULT now(),
  lease_until timestamptz NOT NULL,
  candidate   boolean NOT NULL DEFAULT false
);

CREATE TABLE migration_marks (
  name    text PRIMARY KEY,
  done_at timestamptz NOT NULL DEFAULT now(),
  facts   jsonb NOT NULL DEFAULT '{}'
);
