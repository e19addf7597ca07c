//! [`Folder`]: the folder of one task.

use std::path::PathBuf;

use crate::place::Owners;

/// The folder of one task, and the file beside it that names its running command.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    /// The folder, as an absolute path.
    pub(crate) path: PathBuf,
    /// The file.
    pub(crate) record: PathBuf,
    /// Whose record counts.
    pub(crate) owners: Owners,
}
