//! [`Folder`]: the folder of one task.

use std::path::PathBuf;

use crate::place::Owners;

/// The folder of one task, and the file next to it that records its running command.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    /// The folder, as an absolute path.
    pub(crate) path: PathBuf,
    /// The file that records the running command.
    pub(crate) record: PathBuf,
    /// The users whose records are trusted.
    pub(crate) owners: Owners,
}
