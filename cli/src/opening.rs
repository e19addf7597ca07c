//! Opening the store that the options name: to change it, to read it, for a node.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::time::sleep;
use tracing::warn;
use windlass::{
    Client, Trace,
    clock::SystemClock,
    runner::REPORTS,
    store::{
        self, Store,
        copy::Outside,
        sqlite::{Location, SqliteStore},
    },
};

use crate::{exit::Failure, global::Global, text::one_line, use_copied};

/// The most rows of the inbox that a command examines for its note.
const OUTSIDE: u32 = 100;

/// Opens the store with this URL.
///
/// # Errors
///
/// When it cannot be opened; the error says why.
pub(crate) async fn open(url: &str) -> Result<Store, Failure> {
    Store::open(url).await.map_err(|e| not_opened(url, e))
}

fn not_opened(url: &str, error: store::Error) -> Failure {
    let is_etcd = url.starts_with("etcd:") || url.starts_with("etcds:");
    match error {
        store::Error::Invalid(e) if e.field() == "store" && !is_etcd => {
            Failure::Usage(format!("{e}; write --store sqlite:jobs.db for a file"))
        }
        store::Error::Unusable(_) if is_etcd && !cfg!(feature = "etcd") => Failure::Store(format!(
            "store: '{}' is on etcd, and this windlass was built without it; install one that \
             was: cargo install windlass-cli --features etcd (building it needs protoc)",
            store::without_password(url)
        )),
        e => e.into(),
    }
}

async fn open_to_read(path: &Path) -> Result<Client, store::Error> {
    let clock = SystemClock::shared();
    let opened = SqliteStore::open_to_read(path, clock.clone()).await?;
    let opened = Arc::new(opened);
    Ok(traced(&Store::from_parts(opened.clone(), opened, clock)))
}

/// Creates the folder, accessible only to its owner, and its missing parents.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

impl Global {
    /// Returns the URL of the store to use.
    ///
    /// # Errors
    ///
    /// When there is no place for the default file.
    pub(crate) fn store_url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.store {
            return Ok(url.clone());
        }
        let Some(dirs) = directories::ProjectDirs::from("", "", "windlass") else {
            let text = "store: you have no home directory; give --store sqlite:PATH";
            return Err(Failure::Usage(text.into()));
        };
        let path = dirs.data_dir().join("windlass.db");
        Ok(format!("sqlite:{}", path.display()))
    }

    /// Creates the folder of the default store.
    fn default_folder(&self) -> Result<(), Failure> {
        if self.store.is_some() {
            return Ok(());
        }
        let url = self.store_url()?;
        let path = Path::new(url.trim_start_matches("sqlite:"));
        let Some(dir) = path.parent() else {
            return Ok(());
        };
        private_folder(dir).map_err(|e| {
            let dir = dir.display();
            Failure::Store(format!(
                "store: could not create the folder {dir}: {e}; give --store sqlite:PATH"
            ))
        })
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// When it cannot be opened; the error says why.
    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        self.default_folder()?;
        let opened_at = Timestamp::now();
        let store = open(&self.store_url()?).await?;
        self.opened(&store, opened_at).await?;
        Ok(self.past_mark(store))
    }

    /// Returns the store; with `--use-copied` its mark of a copy is removed with the first write that it refuses.
    pub(crate) fn past_mark(&self, store: Store) -> Store {
        match self.use_copied {
            true => use_copied::wrapped(store, self.out()),
            false => store,
        }
    }

    /// Notes the operations that the store refused while it was opened, because no command has sent
    /// them.
    async fn opened(&self, store: &Store, at: Timestamp) -> Result<(), Failure> {
        let Ok(part) = store.transfer() else {
            return Ok(());
        };
        // A note must not make the command fail.
        let outside = part.outside(OUTSIDE).await.unwrap_or_default();
        let refused: Vec<&Outside> = (outside.iter())
            .filter(|one| one.refused_at.is_some_and(|refused| refused >= at))
            .collect();
        if let [first, others @ ..] = refused.as_slice() {
            let more = match others.len() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let reason = first.refused.as_deref().unwrap_or_default();
            self.out().note(format!(
                "note: {} was refused ({}){more}; `{}` shows refused rows and what to do",
                first.what,
                one_line(reason),
                self.hint().command("doctor")
            ));
        }
        Ok(())
    }

    /// Opens the store and returns a client, for commands that are of no use on a store that does
    /// not exist. Creates no file, neither the named one nor the default one.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and an error when the file does not exist, or only its
    /// log.
    pub(crate) async fn existing(&self) -> Result<Client, Failure> {
        self.exists()?;
        self.client().await
    }

    /// Opens the store like [`existing`](Self::existing), for commands that only read: even a file
    /// that cannot be written, because of its mode or a full disk.
    ///
    /// # Errors
    ///
    /// The errors of [`existing`](Self::existing).
    pub(crate) async fn reading(&self) -> Result<Client, Failure> {
        self.exists()?;
        let url = self.store_url()?;
        let Some(path) = Location::of(&url).map(|file| file.path()) else {
            return self.reader().await;
        };
        if !SqliteStore::is_writable(path) {
            return Ok(open_to_read(path).await?);
        }
        let opened_at = Timestamp::now();
        match Store::open(&url).await {
            Ok(store) => {
                self.opened(&store, opened_at).await?;
                self.note_kept_mark(&store).await?;
                Ok(traced(&store))
            }
            Err(error) if error.is_retryable() => {
                let read = open_to_read(path).await;
                read.map_err(|_| not_opened(&url, error))
            }
            Err(error) => Err(not_opened(&url, error)),
        }
    }

    /// Opens a store that is not a file on this machine, for commands that only read.
    async fn reader(&self) -> Result<Client, Failure> {
        let opened_at = Timestamp::now();
        let store = open(&self.store_url()?).await?;
        self.opened(&store, opened_at).await?;
        self.note_kept_mark(&store).await?;
        Ok(traced(&store))
    }

    /// Notes that a command without a write that the mark refuses leaves the mark of a copy.
    async fn note_kept_mark(&self, store: &Store) -> Result<(), Failure> {
        if self.use_copied
            && let Ok(part) = store.transfer()
            && part.copied().await?.is_some()
        {
            self.out().note(
                "note: the mark of the copy stays; with --use-copied the first write that it refuses removes it: a submit, \
                 a command to a task, a worker that starts",
            );
        }
        Ok(())
    }

    /// Checks that the file exists and has tables of windlass, if the store is a file.
    fn exists(&self) -> Result<(), Failure> {
        let url = self.store_url()?;
        let Some(file) = Location::of(&url) else {
            return Ok(());
        };
        let path = file.path();
        file.options().map_err(|e| not_opened(&url, e))?;
        let shown = path.display();
        if !SqliteStore::exists(path)? {
            return Err(Failure::Store(format!(
                "store: there is no file {shown}; check --store or WINDLASS_STORE (`windlass submit` and `windlass worker` make a new store)"
            )));
        }
        if SqliteStore::is_foreign(path) {
            return Err(Failure::Store(format!(
                "store: '{shown}' is a database of another program, without tables of windlass; check --store or WINDLASS_STORE (`windlass submit` and `windlass worker` add the tables)"
            )));
        }
        Ok(())
    }

    /// Returns a client like [`client`](Self::client), for tasks that other processes run after
    /// this program has ended.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and an error when the store ends with this program.
    pub(crate) async fn lasting(&self) -> Result<Client, Failure> {
        if self.store.as_deref() == Some("memory:") {
            let text = "store: memory: is gone when this program ends, and the task with it; write \
                        --store sqlite:jobs.db for a file";
            return Err(Failure::Usage(text.into()));
        }
        self.client().await
    }

    /// Opens the store and returns a client.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(traced(&self.open().await?))
    }

    /// Returns a client like [`client`](Self::client), for a node: retries for this long while the
    /// store is unavailable.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) async fn client_within(&self, wait: Duration) -> Result<Client, Failure> {
        self.default_folder()?;
        let url = self.store_url()?;
        let (end, mut reported) = (Instant::now() + wait, false);
        loop {
            match self.open_for_node(&url).await {
                Ok(store) => {
                    return Ok(traced(&self.past_mark(store)));
                }
                Err(error) if error.is_retryable() && Instant::now() < end => {
                    if !std::mem::replace(&mut reported, true) {
                        let seconds = wait.as_secs();
                        warn!(target: REPORTS, "{error}; trying again for {seconds} s");
                    }
                    sleep(Duration::from_millis(500)).await;
                }
                Err(error) => return Err(not_opened(&url, error)),
            }
        }
    }

    /// Opens the store for a node. On SQLite its supervisor also holds its leases: the tasks of a
    /// killed worker become free when the supervisor has ended their commands.
    async fn open_for_node(&self, url: &str) -> Result<Store, store::Error> {
        let (Some(file), Some(_)) = (Location::of(url), self.link.supervisor()) else {
            return Store::open(url).await;
        };
        let mut options = file.options()?;
        options.supervisor = self.link.supervisor();
        let clock = SystemClock::shared();
        let opened = SqliteStore::open(file.path(), options, clock.clone()).await?;
        let opened = Arc::new(opened);
        Ok(Store::from_parts(opened.clone(), opened, clock))
    }
}

/// Returns a client whose changes belong to the place in a trace that the environment of this process names. A place that is
/// no `traceparent` is ignored, as the standard has it.
pub(crate) fn traced(store: &Store) -> Client {
    let variable = |name| std::env::var(name).ok();
    let parent = variable("TRACEPARENT");
    let state = variable("TRACESTATE");
    let trace = parent.and_then(|parent| Trace::new(&parent, state.as_deref()).ok());
    Client::new(store).in_trace(trace)
}
