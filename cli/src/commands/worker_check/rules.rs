//! The rules to which a client is held, by name.

/// A rule: its name, and what it asks of a client.
pub(super) type Rule = (&'static str, &'static str);

pub(super) const REGISTER_AGAIN: Rule = (
    "register-again",
    "registers again with the same name and secret until a server has answered",
);
pub(super) const SECRET: Rule = ("secret", "sends the secret with which it has registered");
pub(super) const SEQ: Rule = (
    "seq-grows",
    "gives each exchange and report a greater seq than every earlier one",
);
pub(super) const WAIT: Rule = (
    "wait",
    "asks for a wait of at most wait_ms, and of 0 after a failure",
);
pub(super) const HELD: Rule = (
    "held-whole",
    "lists every claim that it has in held, with its fence and run, and no other",
);
pub(super) const START: Rule = ("start-once", "starts a run at most once");
pub(super) const REPLACED: Rule = (
    "replaced-run",
    "aborts the handler of a run that a greater one replaces, and does not start it again",
);
pub(super) const AGAIN: Rule = (
    "report-again",
    "sends a report again, with the same n and content, until it is answered",
);
pub(super) const NUMBER: Rule = (
    "report-number",
    "numbers the reports of a claim from 1 without a gap, across its runs",
);
pub(super) const FORM: Rule = (
    "form",
    "sends requests of the form that the protocol defines",
);
pub(super) const STOP: Rule = (
    "stop",
    "ends a handler within the grace of a stop, and reports its end",
);
pub(super) const TTL: Rule = (
    "ttl",
    "stops every handler at 0.8 TTL after the exchange was sent that has renewed the lease",
);
pub(super) const LOST: Rule = ("lost", "aborts the handler of a lost claim");
pub(super) const LOST_REPORT: Rule = ("lost-report", "reports nothing more of a lost claim");
pub(super) const DRAIN: Rule = ("drain", "asks for no claims while it is drained");
pub(super) const REFUSED: Rule = ("refused", "stops everything after 401 and 403");
pub(super) const OVER: Rule = ("over", "stops everything after 410, and registers again");
pub(super) const STALE: Rule = (
    "stale",
    "goes on after 409: sends its present state with a greater seq, and stops nothing",
);
pub(super) const TOO_LARGE: Rule = (
    "too-large",
    "goes on after 413, and ends the run in the end",
);
pub(super) const PATIENT: Rule = (
    "retry-after",
    "waits for Retry-After after 429, then tries again",
);
pub(super) const BUSY: Rule = (
    "busy",
    "tries again after 503, at another server if there is one",
);
pub(super) const SERVERS: Rule = (
    "servers",
    "goes on at another server of the list when its server is lost",
);
pub(super) const UNKNOWN: Rule = ("unknown", "ignores fields that it does not know");
pub(super) const UNREADABLE: Rule = (
    "unreadable",
    "fails the run whose value it cannot decode, as an attempt, and takes the rest of the answer",
);
pub(super) const WORKS: Rule = (
    "works",
    "runs tasks, and reports what their handlers return",
);

/// Every rule, for the test of the page that lists them.
#[cfg(test)]
pub(super) const ALL: [Rule; 25] = [
    WORKS,
    FORM,
    REGISTER_AGAIN,
    SECRET,
    SEQ,
    WAIT,
    HELD,
    START,
    REPLACED,
    AGAIN,
    NUMBER,
    STOP,
    TTL,
    LOST,
    LOST_REPORT,
    DRAIN,
    REFUSED,
    OVER,
    STALE,
    TOO_LARGE,
    PATIENT,
    BUSY,
    SERVERS,
    UNKNOWN,
    UNREADABLE,
];
