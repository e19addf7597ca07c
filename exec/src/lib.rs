//! The kind `exec` of [windlass]: tasks that are commands of the operating system.
//!
//! | module | what |
//! |---|---|
//! | `command` | the handler: one process group for each command, its output, its folder, leftovers of killed workers |
//! | [`logs`] | the whole output of commands, in files of this machine |
//! | [`supervisor`] | the process above a worker, which ends what a killed worker leaves running |
//! | [`socket`] | the socket of a worker, through which its commands ask for signals |
//! | `task_folder` | the folder names of tasks, and whether their tasks still need them |
//! | `place` | where this machine keeps the files of a store |
//! | [`inherited`] | the files that the caller of a worker has left open, and which of them its commands get |
//! | [`hash`] | names derived from content |
//! | [`text`] | durations, and the byte order mark of a file |
//!
//! The crate needs Unix; the supervisor needs Linux.
//!
//! # Example
//!
//! ```no_run
//! use windlass::{Client, KindConfig, Runner, Store};
//! use windlass_exec::{Exec, Folders, KIND, inherited::Inherited};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! // First of all in a program: what its caller has left open is kept from the commands.
//! let inherited = Inherited::keep();
//! let url = "sqlite:jobs.db";
//! let store = Store::open(url).await?;
//! let identity = store.registry().identity().await?;
//! let folders = Folders::of_store(url, &identity, &Client::new(&store))?;
//! let exec = Exec::new(folders, store.registry().limits().max_bytes);
//! let config = KindConfig::default();
//! let runner = Runner::builder(&store).handler_with(KIND, config, exec).start().await?;
//! # let _ = (runner, inherited);
//! # Ok(())
//! # }
//! ```

mod command;
pub mod hash;
pub mod inherited;
pub mod logs;
mod place;
pub mod socket;
pub mod supervisor;
mod task_folder;
pub mod text;

pub use command::{
    Exec, FIELDS, Folders, KIND, KINDS, Output, Props, RUN_KIND, SignalWaits, Word, operators,
    programs,
};
