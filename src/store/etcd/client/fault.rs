//! Faults: the errors of etcd and its client, classified for a store.

use etcd_client::Error as Etcd;

use crate::store::Error;

/// A limit of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// `--max-txn-ops`.
    Operations,
    /// `--max-request-bytes`.
    Bytes,
}

/// What a quota without room means.
pub(super) const QUOTA_FULL: &str = "the quota is full: compact the history, defragment the members and disarm the alarm \
     (docs/operate/operations-etcd.md)";

/// Why a request to etcd failed.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A lease of the request does not exist: nothing was written.
    LeaseGone,
    /// The revision of the request was compacted.
    Compacted,
    /// The request may have been carried out.
    Unknown(String),
    /// The request was not carried out. A retry may succeed.
    NotNow(String),
    /// The request was not carried out. A retry fails too.
    Refused(Error),
    /// The request was not carried out: it exceeded a limit of the servers.
    OverLimit(Limit, Error),
    /// The request was not carried out: the servers reject this process (user, role, certificate),
    /// or are not etcd. The text says what to do.
    Setup(String),
    /// The request was not carried out: the token has expired, or is older than the last change of
    /// users and roles.
    StaleToken(String),
}

impl Fault {
    /// Returns whether a member reported that it has no quorum.
    pub(crate) fn is_without_quorum(&self) -> bool {
        matches!(self, Self::Unknown(reason) | Self::NotNow(reason) if reason.contains("quorum"))
    }

    /// Returns the store's error. The distinction of leases and revisions is dropped.
    pub(crate) fn into_error(self, operation: &'static str) -> Error {
        match self {
            Self::Unknown(reason) | Self::NotNow(reason) | Self::StaleToken(reason) => {
                Error::unavailable(operation, reason)
            }
            Self::LeaseGone => Error::unavailable(operation, "the lease is gone"),
            Self::Compacted => Error::unavailable(operation, "the revision was compacted"),
            Self::Refused(error) | Self::OverLimit(_, error) => error,
            Self::Setup(text) => Error::Unusable(text),
        }
    }
}

fn unusable(text: &str, advice: &str) -> Fault {
    Fault::Setup(format!("etcd: {text}; {advice}"))
}

fn over_limit(limit: Limit, text: &str, advice: &str) -> Fault {
    Fault::OverLimit(limit, Error::Unusable(format!("etcd: {text}; {advice}")))
}

fn with_sources(error: &dyn std::error::Error) -> String {
    with_sources_of(&error.to_string(), error.source())
}

fn with_sources_of(text: &str, mut next: Option<&dyn std::error::Error>) -> String {
    let mut text = text.to_owned();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// The advice for a server without TLS.
pub(crate) const WITHOUT_TLS: &str =
    "the server does not speak TLS there: use etcd:// instead of etcds://";

/// Returns the advice for an error of TLS, if its cause is known.
fn tls_advice(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    Some(
        if text.contains("unknownissuer") || text.contains("badsignature") {
            "the server's certificate is of another authority: give its CA (WINDLASS_ETCD_CA)"
        } else if text.contains("notvalidforname") {
            "the server's certificate is for another name: use the name that is in it as the host"
        } else if text.contains("certificate") && text.contains("expired") {
            "the certificate has expired: renew it, or check the clock"
        } else if text.contains("certificaterequired") || text.contains("alert") {
            "the server refuses us: give a client certificate of its CA (WINDLASS_ETCD_CERT, WINDLASS_ETCD_KEY)"
        } else if ["invalidcontenttype", "corrupt message", "handshake eof"]
            .iter()
            .any(|part| text.contains(part))
        {
            WITHOUT_TLS
        } else {
            return None;
        },
    )
}

impl From<Etcd> for Fault {
    fn from(error: Etcd) -> Self {
        let status = match &error {
            Etcd::GRpcStatus(status) => status,
            Etcd::InvalidArgs(_) | Etcd::InvalidUri(_) | Etcd::EndpointError(_) => {
                return unusable(&error.to_string(), "check the store's URL and TLS files");
            }
            Etcd::LeaseKeepAliveError(text) if text.contains("not found") => {
                return Self::LeaseGone;
            }
            Etcd::TransportError(cause) => {
                let text = with_sources(cause);
                return match tls_advice(&text) {
                    Some(advice) => unusable(&text, advice),
                    None => Self::Unknown(text),
                };
            }
            _ => return Self::Unknown(error.to_string()),
        };
        let mut text = status.message().to_owned();
        let whole = with_sources_of(status.message(), std::error::Error::source(status));
        let has = |part: &str| text.contains(part);
        if has("requested lease not found") {
            return Self::LeaseGone;
        }
        if has("required revision has been compacted") {
            return Self::Compacted;
        }
        if has("database space exceeded") {
            return Self::NotNow(format!("{text}: {QUOTA_FULL}"));
        }
        if has("request is too large") {
            let advice =
                "it is over the server's --max-request-bytes; raise it, or write less at once";
            return over_limit(Limit::Bytes, &text, advice);
        }
        if has("too many operations") {
            let advice = "it is over the server's --max-txn-ops; raise it, or give fewer effects in one message";
            return over_limit(Limit::Operations, &text, advice);
        }
        if has("duplicate key given") {
            let advice = "this is an error of windlass: report it";
            return Self::Refused(Error::Unusable(format!("etcd: {text}; {advice}")));
        }
        if has("authentication failed") || has("user name is empty") {
            let advice = "give user and password of the cluster (WINDLASS_ETCD_USER, WINDLASS_ETCD_PASSWORD)";
            return unusable(&text, advice);
        }
        if has("authentication is not enabled") {
            return unusable(&text, "leave user and password out");
        }
        if has("permission denied") {
            let advice = "the user needs a role with read and write access to the namespace's keys";
            return unusable(&text, advice);
        }
        // The last one is the text of a watch of etcd 3.5.
        let stale = [
            "invalid auth token",
            "revision of auth store is old",
            "revision in header is old",
        ];
        if stale.iter().any(|part| has(part)) {
            return Self::StaleToken(text);
        }
        if has("no leader") {
            return Self::NotNow(format!("{text}: too few members run for a quorum"));
        }
        if has("too many requests") {
            return Self::NotNow(text);
        }
        if let Some(advice) = tls_advice(&whole) {
            return unusable(&whole, advice);
        }
        if is_another_server(&whole) {
            let advice = "the server there is not an etcd, or speaks TLS: check host and port, or use etcds://";
            return unusable(&whole, advice);
        }
        if text.is_empty() || whole.len() > text.len() {
            text = whole;
        }
        Self::Unknown(format!("{:?}: {text}", status.code()))
    }
}

/// Returns whether the text is the answer of a server other than etcd.
fn is_another_server(text: &str) -> bool {
    let text = text.to_lowercase();
    [
        "unknown service",
        "unimplemented",
        "404 not found",
        "invalid content-type",
        "frame with invalid size",
        "invalid compression flag",
        "http status code",
    ]
    .iter()
    .any(|part| text.contains(part))
}
