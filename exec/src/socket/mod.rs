//! The socket of a worker, through which its commands ask it.
//!
//! A worker has one socket, from its first command on. Each run of a command has a key of its own, so a process speaks for
//! its own run, as long as that runs.
//!
//! | module | what |
//! |---|---|
//! | `folder` | the folder of the socket, and what killed workers leave there |
//! | `serve` | a connection: reads requests, writes answers |
//! | `form` | requests and answers as lines of JSON |
//! | [`ask`] | the side of the command |
//!
//! # Protocol
//!
//! A request is a line with a JSON object: `key`, and one field that names what it asks for. The answer is a line too.
//! A connection takes one request after the other.
//!
//! | request | answer |
//! |---|---|
//! | `{"key":"…","wait_signal":{"name":"approve","text":"Deploy?","schema":{},"until":"in 3d","reply":"thanks"}}` | `{"payload":…}`, or `{"expired":true}` |
//! | any, when it is refused | `{"error":"…"}`, with `"field":"…"` if a field is wrong |
//!
//! # Cost
//!
//! A run that asks for nothing takes a random key and an entry in a map. It has no connection and no task of its own.

pub mod ask;
mod folder;
mod form;
mod serve;

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
    task::{JoinHandle, spawn_blocking},
};
use tracing::{debug, warn};

use self::folder::Folder;
pub(crate) use self::form::{Answer, Request, WaitSignal};

/// The variable with the path of the socket.
pub(crate) const SOCKET: &str = "WINDLASS_TASK_SOCKET";
/// The variable with the key of the run.
pub(crate) const KEY: &str = "WINDLASS_TASK_KEY";

/// How many requests of a run may wait.
const QUEUE: usize = 16;

/// The socket of this worker, which the first run opens. A run after its removal, such as by a program that cleans folders of
/// temporary files, opens another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sockets(Arc<tokio::sync::Mutex<Option<Socket>>>);

impl Sockets {
    /// Registers a run. `None` when the socket cannot be opened: a command that asks nothing runs without it.
    pub(crate) async fn register(&self) -> Option<Asking> {
        let mut kept = self.0.lock().await;
        if kept.as_ref().is_some_and(|socket| !socket.exists()) {
            warn!("the socket of this worker was removed: another one is opened");
            *kept = None;
        }
        let registered = match &*kept {
            Some(socket) => socket.register(),
            None => match Socket::open().await {
                Ok(socket) => kept.insert(socket).register(),
                Err(error) => Err(error),
            },
        };
        match registered {
            Ok(asking) => Some(asking),
            Err(error) => {
                warn!(%error, "could not open the socket of this worker: commands cannot wait for signals; check the folder for temporary files (TMPDIR)");
                None
            }
        }
    }
}

/// A socket that accepts connections. Dropping it closes and removes it.
#[derive(Debug)]
struct Socket {
    folder: Folder,
    runs: Arc<Runs>,
    accepting: JoinHandle<()>,
}

impl Socket {
    async fn open() -> io::Result<Self> {
        let made = spawn_blocking(Folder::make);
        let (folder, listener) = made.await.map_err(io::Error::other)??;
        let listener = UnixListener::from_std(listener)?;
        let runs = Arc::<Runs>::default();
        debug!(path = %folder.socket().display(), "the socket is open");
        Ok(Self {
            folder,
            accepting: tokio::spawn(serve::accept(listener, runs.clone())),
            runs,
        })
    }

    fn exists(&self) -> bool {
        self.folder.socket().symlink_metadata().is_ok()
    }

    fn register(&self) -> io::Result<Asking> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let key: Arc<str> = format!("{:032x}", u128::from_ne_bytes(bytes)).into();
        let (sender, requests) = mpsc::channel(QUEUE);
        self.runs.add(key.clone(), sender);
        Ok(Asking {
            requests,
            key,
            socket: self.folder.socket().into(),
            runs: self.runs.clone(),
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A request of a process of a run.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// Takes the answer. Dropping it refuses the request, because the run has ended.
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The runs, by their keys.
#[derive(Debug, Default)]
struct Runs(Mutex<HashMap<Arc<str>, mpsc::Sender<Asked>>>);

impl Runs {
    fn add(&self, key: Arc<str>, sender: mpsc::Sender<Asked>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert(key, sender);
    }

    fn remove(&self, key: &str) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.remove(key);
    }

    fn get(&self, key: &str) -> Option<mpsc::Sender<Asked>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(key).cloned()
    }
}

/// The requests of one run. Dropping it ends its key, and refuses the requests without an answer.
#[derive(Debug)]
pub(crate) struct Asking {
    requests: mpsc::Receiver<Asked>,
    key: Arc<str>,
    socket: Arc<Path>,
    runs: Arc<Runs>,
}

impl Asking {
    /// Returns the next request. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        self.requests.recv().await
    }

    /// Returns the variables by which the processes of the run find the socket.
    pub(crate) fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [
            (SOCKET, self.socket.as_os_str()),
            (KEY, OsStr::new(&*self.key)),
        ]
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.runs.remove(&self.key);
    }
}

#[cfg(test)]
mod tests;
