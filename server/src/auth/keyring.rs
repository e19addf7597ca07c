//! [`Keyring`]: the tokens of the namespace, as this server knows them.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::{
    Author,
    clock::Clock,
    store::{Error, NamedValue, Registry, Store},
};

use crate::mask::Hiding;

use super::{
    Scope,
    caller::{Caller, User},
    hex::{self, Hash},
    secret::hash,
    session::{self, GrantUser, NAME, SESSIONS},
    token::{FOLDER as TOKENS, Token, readable},
};
use crate::peers::{self, Peer};

/// The folder of the named values of servers.
const FOLDER: &str = "server/";

/// How often the tokens are read again, and how long one read may take.
const EVERY: Duration = Duration::from_millis(500);
const READ: Duration = Duration::from_secs(2);
/// How long tokens are trusted after they were read last.
const TRUST: Duration = Duration::from_secs(5);
/// How long a token that is not known yet may wait for the next read.
const WAIT: Duration = Duration::from_secs(1);

/// Why a secret is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No valid token has it.
    Unknown,
    /// The store was not reached for too long: whether the token is valid is not known.
    Unconfirmed,
}

/// The tokens of the namespace. A task reads them again twice a second, so that a token that is revoked is refused within a
/// second. Clones share their state.
#[derive(Clone)]
pub(crate) struct Keyring {
    shared: Arc<Shared>,
    /// Ends the task with the last clone.
    _stops: Arc<DropGuard>,
}

struct Shared {
    ring: RwLock<Ring>,
    /// The number of the last read.
    reads: watch::Sender<u64>,
    /// Notified when a caller may no longer be who it was. Reads that found nothing new wake none of those that wait.
    changed: Notify,
    /// Asks for a read before its time.
    asked: Notify,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Ring {
    callers: HashMap<Hash, Arc<Caller>>,
    /// The name by which browsers of this machine call a server of the namespace.
    host: Option<String>,
    /// What the masks hide.
    hiding: Arc<Hiding>,
    /// The servers of the namespace, each with the name of its value.
    servers: Vec<(String, Peer)>,
    /// The values that were read last.
    values: Vec<NamedValue>,
    read_at: Option<Instant>,
}

impl Keyring {
    /// Starts to follow the tokens of a store.
    pub(crate) fn follow(store: &Store) -> Self {
        let shared = Arc::new(Shared {
            ring: RwLock::default(),
            reads: watch::Sender::new(0),
            changed: Notify::new(),
            asked: Notify::new(),
            clock: store.clock().clone(),
        });
        let stop = CancellationToken::new();
        let (registry, following, stopped) =
            (store.registry().clone(), shared.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = following.run(&*registry) => {}
                () = following.expire() => {}
                () = stopped.cancelled() => {}
            }
        });
        Self {
            shared,
            _stops: Arc::new(stop.drop_guard()),
        }
    }

    /// Returns the caller that shows a secret. One that is not known waits for the next read of the tokens, so that a new
    /// token can be used at once.
    pub(crate) async fn caller(&self, secret: &str) -> Result<Arc<Caller>, Refused> {
        let hash = hash(secret);
        let mut reads = self.shared.reads.subscribe();
        let mut found = self.shared.find(&hash);
        // The read that runs now may have begun before the token was made.
        for _ in 0..2 {
            if found.is_ok() || found == Err(Refused::Unconfirmed) && *reads.borrow() > 0 {
                break;
            }
            self.shared.asked.notify_one();
            let next = timeout(WAIT, reads.changed()).await;
            found = self.shared.find(&hash);
            if next.is_err() {
                break;
            }
        }
        found
    }

    /// Waits, for a moment, until the tokens were read again: after a change of them by this server.
    pub(crate) async fn refresh(&self) {
        let mut reads = self.shared.reads.subscribe();
        // The read that runs now may have begun before the change.
        for _ in 0..2 {
            self.shared.asked.notify_one();
            let _ = timeout(WAIT, reads.changed()).await;
        }
    }

    /// Returns whether a caller still is who it was, as far as is known now.
    pub(crate) fn now(&self, caller: &Caller) -> Result<(), Refused> {
        let Some(hash) = caller.hash() else {
            return Ok(());
        };
        match self.shared.find(hash)? {
            found if *found == *caller => Ok(()),
            _ => Err(Refused::Unknown),
        }
    }

    /// Waits until a caller is no longer who it was: its token was revoked or changed, has expired, or is not confirmed.
    pub(crate) async fn ends(&self, caller: &Caller) -> Refused {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if let Err(refused) = self.now(caller) {
                return refused;
            }
            changed.await;
        }
    }

    /// Returns whether a name is the one by which browsers of this machine call a server of the namespace. One that may be
    /// waits until the name was read again, because it may have been made just now.
    pub(crate) async fn is_host(&self, name: &str) -> bool {
        let may_be = name.to_ascii_lowercase().ends_with(".localhost");
        if may_be && !self.shared.is_host(name) {
            self.refresh().await;
        }
        may_be && self.shared.is_host(name)
    }

    /// Returns what the masks hide now. Waits, for a moment, for the first read.
    pub(crate) async fn hiding(&self) -> Result<Arc<Hiding>, Refused> {
        let mut reads = self.shared.reads.subscribe();
        let mut hiding = self.shared.hiding();
        if hiding.is_none() && *reads.borrow_and_update() == 0 {
            let _ = timeout(WAIT, reads.changed()).await;
            hiding = self.shared.hiding();
        }
        hiding.ok_or(Refused::Unconfirmed)
    }

    /// Returns the servers of the namespace, each with the name of its value.
    pub(crate) fn servers(&self) -> Vec<(String, Peer)> {
        let now = self.shared.clock.now();
        let ring = self.shared.ring.read();
        let ring = ring.unwrap_or_else(PoisonError::into_inner);
        let live = ring.servers.iter().filter(|(_, peer)| now < peer.until);
        live.cloned().collect()
    }

    /// Returns whether the tokens were confirmed lately.
    pub(crate) fn is_confirmed(&self) -> bool {
        let ring = self.shared.ring.read();
        ring.unwrap_or_else(PoisonError::into_inner).is_confirmed()
    }
}

impl Ring {
    fn is_confirmed(&self) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() < TRUST)
    }
}

impl Shared {
    fn find(&self, hash: &Hash) -> Result<Arc<Caller>, Refused> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        if !ring.is_confirmed() {
            return Err(Refused::Unconfirmed);
        }
        let now = self.clock.now();
        let found = ring.callers.get(hash);
        let found = found.filter(|caller| caller.is_live(now));
        found.cloned().ok_or(Refused::Unknown)
    }

    fn hiding(&self) -> Option<Arc<Hiding>> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        ring.is_confirmed().then(|| ring.hiding.clone())
    }

    fn is_host(&self, name: &str) -> bool {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let host = ring.host.as_deref();
        host.is_some_and(|host| host.eq_ignore_ascii_case(name))
    }

    async fn run(&self, registry: &dyn Registry) {
        let mut is_reported = false;
        loop {
            let read = timeout(READ, registry.values(FOLDER)).await;
            let slow = |_| Error::unavailable("read the tokens", "the store does not respond");
            match read.map_err(slow).flatten() {
                Ok(values) => {
                    self.take(values);
                    is_reported = false;
                }
                Err(error) if !is_reported => {
                    tracing::warn!(%error, "the tokens cannot be read; requests with tokens are refused with 503 after 5 s");
                    is_reported = true;
                }
                Err(_) => {}
            }
            self.reads.send_modify(|reads| *reads += 1);
            // Also bounds how often strangers can make the server read.
            sleep(EVERY / 5).await;
            let _ = timeout(EVERY * 4 / 5, self.asked.notified()).await;
        }
    }

    /// Notifies those that wait when a token or a session expires, or when the trust in all of them ends. One timer does this
    /// for every caller.
    async fn expire(&self) {
        let (mut looked, mut was_confirmed) = (self.clock.now(), false);
        loop {
            sleep(EVERY).await;
            let now = self.clock.now();
            let (is_confirmed, has_expired) = {
                let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
                let mut ends = ring.callers.values().filter_map(|caller| caller.until);
                (
                    ring.is_confirmed(),
                    ends.any(|end| looked < end && end <= now),
                )
            };
            if has_expired || is_confirmed != was_confirmed {
                self.changed.notify_waiters();
            }
            (looked, was_confirmed) = (now, is_confirmed);
        }
    }

    fn take(&self, values: Vec<NamedValue>) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.read_at = Some(Instant::now());
        if ring.values == values {
            return;
        }
        ring.callers = callers(&values);
        ring.hiding = Arc::new(Hiding::read(&values));
        let name = values.iter().find(|value| value.name == NAME);
        let label = name.and_then(session::label_of);
        ring.servers = peers::read(&values);
        ring.host = label.map(|label| format!("{label}.localhost"));
        ring.values = values;
        drop(ring);
        self.changed.notify_waiters();
    }
}

/// Returns the callers that tokens and sessions stand for, by the hashes of their secrets.
fn callers(values: &[NamedValue]) -> HashMap<Hash, Arc<Caller>> {
    let is_token = |value: &&NamedValue| value.name.starts_with(TOKENS);
    let tokens: Vec<NamedValue> = values.iter().filter(is_token).cloned().collect();
    let tokens = readable(&tokens);
    let mut callers = HashMap::new();
    for token in &tokens {
        for (hash, until) in token.hashes() {
            let of = token.of();
            let caller = of_token(token, User::Token { of, hash }, until);
            callers.extend(caller.map(|caller| (hash, Arc::new(caller))));
        }
    }
    let sessions = values.iter().filter_map(|value| of_session(value, &tokens));
    callers.extend(sessions.map(|(hash, caller)| (hash, Arc::new(caller))));
    callers
}

fn of_token(token: &Token, user: User, until: Option<Timestamp>) -> Option<Caller> {
    Some(Caller {
        user,
        role: token.role,
        scope: token.scope.clone(),
        max_tasks: token.max_tasks,
        until,
        author: Author::new(format!("token {}", token.name)).ok()?,
    })
}

/// Returns the caller of a session. One of a token is what the token is now, and nothing without the token or the secret by
/// which it was opened.
fn of_session(value: &NamedValue, tokens: &[Token]) -> Option<(Hash, Caller)> {
    let hash = hex::read(value.name.strip_prefix(SESSIONS)?)?;
    let session = session::read(value)?;
    let caller = match session.user {
        GrantUser::Token { name, secret } => {
            let token = tokens.iter().find(|token| token.name == name)?;
            let (_, end) = token.hashes().find(|(hash, _)| *hash == secret)?;
            let until = match end {
                Some(end) => end.min(session.expires_at),
                None => session.expires_at,
            };
            let user = User::Session {
                token: Some(token.of()),
                hash,
            };
            of_token(token, user, Some(until))?
        }
        GrantUser::User { name, role } => Caller {
            user: User::Session { token: None, hash },
            role,
            scope: Scope::default(),
            max_tasks: None,
            until: Some(session.expires_at),
            author: Author::new(name).ok()?,
        },
    };
    Some((hash, caller))
}
