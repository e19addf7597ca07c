//! [`Options`]: how to reach a namespace on etcd.

use std::{fmt, time::Duration};

use jiff::{SignedDuration, SpanRelativeTo};
use windlass_statemachine::{Invalid, time};

use super::connector::Connector;
use crate::store::{Error, Limits, etcd::schema::namespace::outer_of, without_password};

/// How to open a store on etcd.
///
/// # Example
///
/// ```
/// use windlass::store::etcd::Options;
///
/// let options = Options::parse("etcd://10.0.0.1:2379,10.0.0.2:2379/production")?;
/// assert_eq!(options.namespace, "production");
/// assert_eq!(options.endpoints.len(), 2);
/// # Ok::<(), windlass::store::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The members of the cluster: `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// The prefix of every key, without slashes around it. Corresponds to a Metafora namespace.
    pub namespace: String,
    /// User and password, if the cluster requires them.
    pub user: Option<(String, String)>,
    /// The authority that signed the servers' certificates (PEM); the system's by default.
    pub ca: Option<Vec<u8>>,
    /// The client certificate and its key (PEM), if the cluster requires one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the servers' certificates, if it differs from the host.
    pub domain: Option<String>,
    /// The time limit of a call: 5 s by default.
    pub timeout: Duration,
    /// How many operations one transaction may have (the servers' `--max-txn-ops`): 128 by default.
    /// After a refusal the store uses fewer.
    pub max_txn_ops: usize,
    /// How many bytes one request may have (below the servers' `--max-request-bytes`): 1.4 MB by
    /// default. After a refusal the store uses fewer.
    pub max_request_bytes: usize,
    /// How many combined writes may be under way at once: 4 by default.
    pub in_flight: usize,
    /// Whether nodes of Metafora work in this namespace: `false` by default. If so, the props of a task are
    /// stored below the key of the task, where those nodes read them, and every idle node receives the props of
    /// every submit. The option matters for an unused namespace. A namespace that Metafora has used stores props
    /// there anyway, and a namespace that was created without the option is refused.
    pub metafora_nodes: bool,
    /// Whether this process keeps an index of all tasks of the namespace in memory: `false` by default. With the index,
    /// counts and lists by submit and by wake-up read what they return, not every task. The process lists the namespace
    /// when it starts, follows all its changes, and needs about 0.7 kB for each task. Use it for servers and monitors,
    /// and for nodes that report metrics.
    pub memory_index: bool,
    /// The age from which nodes compact history, of the whole etcd and not only of this namespace.
    /// `None`, the default: nodes do not compact.
    ///
    /// Compaction deletes old values of keys, never a task. A watch that was disconnected for
    /// longer lists again. A feed of changes from before that is refused as pruned. If nodes have
    /// different settings, the shortest time applies. Times are measured by the nodes' clocks.
    pub compact_after: Option<Duration>,
    /// How often a node checks how full the members are, and compacts: every 5 min by default.
    pub look_every: Duration,
    /// The limits of the store for tasks and commands.
    pub limits: Limits,
    /// What opens connections: the network, but for simulations.
    pub(crate) connector: Connector,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("namespace", &self.namespace)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .field("domain", &self.domain)
            .field("timeout", &self.timeout)
            .field("compact_after", &self.compact_after)
            .finish_non_exhaustive()
    }
}

/// One task's write has about a dozen operations, so the store cannot work with fewer.
const LEAST_OPERATIONS: usize = 16;
const LEAST_BYTES: usize = 4096;
/// A list reads at one revision, which must not be compacted in the meantime.
const LEAST_HISTORY: Duration = Duration::from_secs(5 * 60);
/// Longer values are treated as mistakes: without the option nothing is compacted.
const MOST_HISTORY: Duration = Duration::from_secs(365 * 24 * 3600);

fn bad(url: &str, why: &str) -> Error {
    let url = without_password(url);
    let reason =
        format!("'{url}' {why}; write etcd://HOST:PORT,HOST:PORT/NAMESPACE (etcds:// for TLS)");
    Invalid::new("store", reason).into()
}

/// Refuses a namespace inside the keys of another one.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), Error> {
    match outer_of(namespace) {
        None => Ok(()),
        Some((outer, folder)) => Err(inside(namespace, &format!("/{outer}"), folder)),
    }
}

pub(crate) fn inside(namespace: &str, outer: &str, folder: &str) -> Error {
    let reason = format!(
        "'/{namespace}' lies inside the keys of the namespace '{outer}', which has its own keys in \
         '{folder}'; give the namespace a name without the part '{folder}'"
    );
    Invalid::new("namespace", reason).into()
}

/// Parses how much history compaction keeps.
fn history(field: &'static str, value: &str) -> Result<Duration, Error> {
    let span = time::span(value);
    let after = span
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .and_then(|after: SignedDuration| Duration::try_from(after).ok());
    match after {
        Some(after) if (LEAST_HISTORY..=MOST_HISTORY).contains(&after) => Ok(after),
        _ => {
            let reason = format!(
                "has compact-after={value}; give a duration from 5m to 365d, such as 90m, 1h or 2d"
            );
            Err(Invalid::new(field, reason).into())
        }
    }
}

fn truth(field: &'static str, name: &str, value: &str) -> Result<bool, Error> {
    value.parse().map_err(|_| {
        let reason = format!("has {name}={value}; give true or false");
        Invalid::new(field, reason).into()
    })
}

/// Returns whether this can be the host of an endpoint: only an address in brackets has colons.
fn is_host(name: &str) -> bool {
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let has = |c: char| c.is_whitespace() || "?#[]".contains(c) || (c == ':' && address.is_none());
    let name = address.unwrap_or(name);
    !name.is_empty() && !name.contains(has)
}

impl Options {
    /// Parses a URL, with defaults for everything that it does not contain. After the namespace it may have
    /// `?max-txn-ops=N&max-request-bytes=N`, the limits of the servers, and `compact-after=DURATION` (5 minutes to 365
    /// days, as `90m`, `1h` or `2d`), for an etcd that only windlass uses: see [`compact_after`](Self::compact_after).
    /// `metafora-nodes=true` is for a namespace that nodes of Metafora share: see
    /// [`metafora_nodes`](Self::metafora_nodes). `memory-index=true` makes this process keep an index of all tasks: see
    /// [`memory_index`](Self::memory_index).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `store`). A URL with a password is refused, because URLs are
    /// printed.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let (rest, scheme) = match (url.strip_prefix("etcd://"), url.strip_prefix("etcds://")) {
            (Some(rest), _) => (rest, "http"),
            (_, Some(rest)) => (rest, "https"),
            _ => return Err(bad(url, "does not begin with etcd:// or etcds://")),
        };
        if rest.contains('@') {
            let reason = "holds a user or password; give them by WINDLASS_ETCD_USER and WINDLASS_ETCD_PASSWORD_FILE instead";
            return Err(Invalid::new("store", reason).into());
        }
        let Some((hosts, namespace)) = rest.split_once('/') else {
            return Err(bad(url, "has no namespace"));
        };
        let (namespace, parameters) = namespace.split_once('?').unwrap_or((namespace, ""));
        let namespace = namespace.trim_matches('/');
        let is_name = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control)
        };
        if !namespace.split('/').all(is_name) || namespace.contains('#') {
            return Err(bad(url, "has no namespace that could be part of a key"));
        }
        check_namespace(namespace)?;
        let mut endpoints = Vec::new();
        for host in hosts.split(',') {
            let port = host
                .rsplit_once(':')
                .and_then(|(name, port)| is_host(name).then(|| port.parse::<u16>().ok())?);
            if port.is_none() {
                return Err(bad(url, "has an endpoint that is not HOST:PORT"));
            }
            endpoints.push(format!("{scheme}://{host}"));
        }
        let mut options = Self {
            endpoints,
            namespace: namespace.to_owned(),
            user: None,
            ca: None,
            identity: None,
            domain: None,
            timeout: Duration::from_secs(5),
            max_txn_ops: 128,
            max_request_bytes: 1_400_000,
            in_flight: 4,
            metafora_nodes: false,
            memory_index: false,
            compact_after: None,
            look_every: Duration::from_secs(300),
            limits: Limits::default(),
            connector: Connector::default(),
        };
        for parameter in parameters.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !options.set(name, "store", value)? {
                let why = format!(
                    "has a parameter '{name}' that is not known (max-txn-ops, max-request-bytes, compact-after, memory-index and metafora-nodes are)"
                );
                // An unknown value may be a password.
                let shown = url.split('?').next().unwrap_or(url);
                return Err(bad(shown, &why));
            }
        }
        Ok(options)
    }

    /// Sets the option with this name. Returns false if there is none. `field` names the source in
    /// errors.
    pub(crate) fn set(
        &mut self,
        name: &str,
        field: &'static str,
        value: &str,
    ) -> Result<bool, Error> {
        let (place, least) = match name {
            "compact-after" => {
                self.compact_after = Some(history(field, value)?);
                return Ok(true);
            }
            "memory-index" => {
                self.memory_index = truth(field, name, value)?;
                return Ok(true);
            }
            "metafora-nodes" => {
                self.metafora_nodes = truth(field, name, value)?;
                return Ok(true);
            }
            "max-txn-ops" => (&mut self.max_txn_ops, LEAST_OPERATIONS),
            "max-request-bytes" => (&mut self.max_request_bytes, LEAST_BYTES),
            _ => return Ok(false),
        };
        match value.parse() {
            Ok(number) if number >= least => *place = number,
            _ => {
                let reason = format!(
                    "has {name}={value}; give a number from {least} on, as the servers' --{name}"
                );
                return Err(Invalid::new(field, reason).into());
            }
        }
        Ok(true)
    }

    /// Opens connections by this connector.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.endpoints.iter().any(|e| e.starts_with("https://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_what_is_wrong() {
        for (url, says) in [
            ("etcd://h:1", "no namespace"),
            ("etcd://h:1/", "no namespace"),
            ("etcd://h/ns", "not HOST:PORT"),
            ("etcd://:1/ns", "not HOST:PORT"),
            ("etcd://h:1,/ns", "not HOST:PORT"),
            ("etcd://h:99999/ns", "not HOST:PORT"),
            // Regression: these were accepted, the parameters of the first one as a part of its host.
            ("etcd://h?max-txn-ops=64:1/ns", "not HOST:PORT"),
            ("etcd://h:1:2/ns", "not HOST:PORT"),
            ("etcd://[]:1/ns", "not HOST:PORT"),
            ("etcd://u:p@h:1/ns", "holds a user or password"),
            ("etcd://h:1/a//b", "part of a key"),
            ("http://h:1/ns", "begin with etcd://"),
            ("etcd://h:1/ns?max-ops=3", "'max-ops' that is not known"),
            ("etcd://h:1/ns?max-txn-ops=3", "a number from 16 on"),
            ("etcd://h:1/ns?max-txn-ops", "a number from 16 on"),
            ("etcd://h:1/ns?metafora-nodes=1", "give true or false"),
            ("etcd://h:1/ns?memory-index=yes", "give true or false"),
            ("etcd://h:1/ns?compact-after", "store: has compact-after=;"),
            ("etcd://h:1/ns?compact-after=10", "from 5m to 365d"),
            ("etcd://h:1/ns?compact-after=-1h", "from 5m to 365d"),
            ("etcd://h:1/ns?compact-after=299s", "from 5m to 365d"),
            ("etcd://h:1/ns?compact-after=366d", "from 5m to 365d"),
            ("etcd://h:1/ns?compact-after=1mo", "from 5m to 365d"),
        ] {
            let error = Options::parse(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
        let options = Options::parse("etcds://a:1,[::1]:2/x/y/").unwrap();
        assert_eq!(options.endpoints, ["https://a:1", "https://[::1]:2"]);
        assert_eq!(options.namespace, "x/y");
        let url = "etcd://a:1/x?max-txn-ops=64&max-request-bytes=100000";
        let options = Options::parse(url).unwrap();
        let limits = (options.max_txn_ops, options.max_request_bytes);
        assert_eq!((limits, options.namespace.as_str()), ((64, 100_000), "x"));
        assert_eq!(options.compact_after, None);
    }

    #[test]
    fn a_namespace_inside_the_keys_of_another_is_refused() {
        for name in ["a/tasks", "a/b/nodes", "a/history/b", "tasks/meta"] {
            let error = Options::parse(&format!("etcd://h:1/{name}")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("'/{name}' lies inside")), "{text}");
        }
        for name in ["a", "tasks", "a/b", "a/task", "nodes/a"] {
            assert_eq!(
                Options::parse(&format!("etcd://h:1/{name}"))
                    .unwrap()
                    .namespace,
                name
            );
        }
    }

    #[test]
    fn a_parameter_that_is_not_known_is_named_without_its_value() {
        let error = Options::parse("etcd://h:1/ns?password=secret").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("'password' that is not known"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn the_duration_of_history_has_a_unit() {
        for (text, minutes) in [("5m", 5), ("1h", 60), ("1h30m", 90), ("2d", 2880)] {
            let options = Options::parse(&format!("etcd://h:1/ns?compact-after={text}")).unwrap();
            assert_eq!(
                options.compact_after,
                Some(Duration::from_secs(minutes * 60))
            );
        }
        let error = history("WINDLASS_ETCD_COMPACT_AFTER", "soon").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("WINDLASS_ETCD_COMPACT_AFTER: has"), "{text}");
    }

    #[test]
    fn a_password_is_not_printed() {
        let wrong = Options::parse("http://u:secret@h:1/ns").unwrap_err();
        assert!(!wrong.to_string().contains("secret"), "{wrong}");
        let mut options = Options::parse("etcd://h:1/ns").unwrap();
        options.user = Some(("u".into(), "secret".into()));
        options.identity = Some((b"cert".to_vec(), b"secret".to_vec()));
        assert!(!format!("{options:?}").contains("secret"));
    }
}
