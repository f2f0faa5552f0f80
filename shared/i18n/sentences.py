"""The English catalog. A sentence says what happened and what the reader can do."""

_ENGLISH: dict[str, str] = {
    "working": "Working…",
    "message_too_long": "That message is too long: I read up to {limit} characters. Please send it in parts.",
    "too_many_messages": "That was more than {limit} messages in a minute. I did not read the last ones; please wait a minute.",
    "only_text": "I can only read text here. Please write what you need.",
    "files_not_read": "I cannot read files here; I answer your text only.",
    "empty_message": "Please write your message together with my name.",
    "model_unreachable": "I cannot answer right now: the model server cannot be reached. Please try again later.",
    "model_refused": "I cannot answer that: the model server refused the request.",
    "model_missing": "I cannot answer right now: the model of this agent is not available. Its owner can choose another.",
    "model_key": "I cannot answer right now: the model server refuses this server's key. The administrator must set it.",
    "model_busy": "I cannot answer right now: the model server is busy. Please try again in a while.",
    "model_quota": "I cannot answer right now: the quota of this bot's owner is used up.",
    "model_too_long": "This conversation is too long for the model. Please start a new one.",
    "model_broken": "I cannot answer right now: the model server's answer broke off. Please send your message again.",
    "model_not_allowed": "I cannot answer right now: this bot's owner may not use its model.",
    "model_empty": "I have no answer to that.",
    "agent_missing": "I cannot answer right now: my agent is gone. The owner of this bot has been told.",
    "owner_off": "I cannot answer right now: the account of this bot's owner is switched off.",
    "too_many_steps": "I stopped after {limit} steps without an answer. Please ask for less at once.",
    "turn_broken": "Something went wrong on my side while I was answering. Please send your message again.",
    "off_title": "{name} was switched off",
    "off_credentials": "{platform} refuses the token. Put in a new token and switch it on again.",
    "off_conflict": "Another program keeps reading the messages of the same bot. Stop it and switch this one on again.",
    "off_webhook": "The bot has a webhook that another program set. Remove it, or save this connection with take_over_webhook, and switch it on again.",
    "off_no_agent": "Its agent was deleted. Choose an agent and switch it on again.",
    "off_no_model": "Its agent has no model. Choose a model for the agent and switch it on again.",
}


def say(code: str, **values: object) -> str:
    """The sentence for a code. An unknown code is a programming error and raises KeyError."""
    return _ENGLISH[code].format(**values)
