//! Varies `countdown`: the states in a custom store, a folder of JSON files. It passes the suite of
//! every state store (`tests/stores/own_state_store.rs`).
//!
//! ```sh
//! cargo run --example own_state_store
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext, TaskId, TaskState, async_trait,
    store::{Error, StateRemoval, StateStore, StateWrite, Store},
};

/// One file per task, in a folder that one process uses at a time.
pub(crate) struct JsonFolder {
    folder: PathBuf,
    /// Comparing fences and writing is one step.
    writing: Mutex<()>,
}

impl JsonFolder {
    /// Opens the folder, and makes it if there is none.
    pub(crate) fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            writing: Mutex::new(()),
        })
    }

    /// The file of a task. An id may be longer than a file name, and two ids may differ in their
    /// case only: so it is written in hexadecimal digits, in folders where it is long.
    pub(crate) fn file(&self, task: &TaskId) -> PathBuf {
        let bytes = task.as_str().as_bytes();
        let mut path = self.folder.clone();
        for part in bytes.chunks(100) {
            path.push(part.iter().map(|b| format!("{b:02x}")).collect::<String>());
        }
        path.with_extension("json")
    }

    fn load_one(&self, task: &TaskId) -> Result<Option<TaskState>, Error> {
        let bytes = match fs::read(self.file(task)) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::unavailable("load a state", e)),
        };
        let state = serde_json::from_slice(&bytes).map_err(|e| Error::Corrupt {
            what: format!("the state of task '{task}'"),
            reason: e.to_string(),
        });
        state.map(Some)
    }

    fn store_one(&self, write: &StateWrite) -> Result<(), Error> {
        let _alone = self.writing.lock();
        // A write that came late must not undo a newer one.
        if let Some(stored) = self.load_one(&write.task)? {
            let (new, old) = (&write.state, (stored.fence, stored.version));
            if (new.fence, new.version) < old {
                return Err(Error::fenced(&write.task));
            }
        }
        let text = serde_json::to_vec(&write.state);
        let written = text
            .map_err(io::Error::from)
            .and_then(|text| self.replace(&self.file(&write.task), &text));
        written.map_err(|e| Error::unavailable("store a state", e))
    }

    fn remove_one(&self, removal: &StateRemoval) -> Result<(), Error> {
        let _alone = self.writing.lock();
        // Another state may have taken the place of the one that was seen.
        if !removal.check(&self.load_one(&removal.task))? {
            return Ok(());
        }
        let file = self.file(&removal.task);
        match fs::remove_file(&file).and_then(|()| self.sync_folders_of(&file)) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(Error::unavailable("remove a state", e))
            }
            _ => Ok(()),
        }
    }

    /// Puts a file in the place of another: after a crash, the old or the new one exists, whole.
    fn replace(&self, file: &Path, text: &[u8]) -> io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = file.with_extension("new");
        let mut out = File::create(&new)?;
        out.write_all(text)?;
        out.sync_all()?;
        fs::rename(&new, file)?;
        self.sync_folders_of(file)
    }

    /// A name is durable when its folder is.
    fn sync_folders_of(&self, file: &Path) -> io::Result<()> {
        let folders = file.ancestors().skip(1);
        let mut own = folders.take_while(|folder| folder.starts_with(&self.folder));
        own.try_for_each(|folder| File::open(folder)?.sync_all())
    }
}

// Files are read and written in place here, which blocks the thread for the time of a sync: good
// enough for a few tasks. A busy store would use `tokio::task::spawn_blocking`.
#[async_trait]
impl StateStore for JsonFolder {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        tasks.iter().map(|task| self.load_one(task)).collect()
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        writes.iter().map(|write| self.store_one(write)).collect()
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        removals.iter().map(|one| self.remove_one(one)).collect()
    }
}

async fn countdown(task: TaskContext) -> Result<Message, BoxError> {
    let from: u32 = task.props()?;
    let left = task.data()?.unwrap_or(from);
    println!("{}: {left}", task.id());
    if left == 0 {
        return Ok(Message::complete_with("lift-off"));
    }
    Ok(Message::sleep_for(Duration::from_secs(1)).with_data(&(left - 1)))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let states = Arc::new(JsonFolder::open("countdown-states")?);
    let store = Store::open("sqlite:countdown-tasks.db").await?;
    let store = store.with_state_store(states.clone());
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("countdown", countdown)
        .start()
        .await?;
    let id = client
        .submit(
            NewTask::new("countdown")
                .id("apollo")
                .props(&5)
                .idempotent(),
        )
        .await?
        .into_id();
    let done = client.wait(&id).await?;
    println!(
        "{}, kept in {}",
        done.result::<String>()?,
        states.file(&id).display()
    );
    runner.shutdown().await;
    Ok(())
}
