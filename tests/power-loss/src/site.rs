//! [`Site`]: where the files of a recorded folder are.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::disk::{Files, OUTSIDE};

/// The name of the store's file.
pub const DATABASE: &str = "windlass.db";

/// A folder with a store and the observer's part.
#[derive(Debug, Clone)]
pub struct Site(PathBuf);

impl Site {
    /// The folder at a path, which may not exist yet.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The store's file.
    pub fn database(&self) -> PathBuf {
        self.0.join(DATABASE)
    }

    /// Where handlers write what they see.
    pub fn witnesses(&self) -> PathBuf {
        self.0.join(OUTSIDE).join("witness")
    }

    /// Where the workload writes what was acknowledged to it.
    pub fn promises(&self) -> PathBuf {
        self.0.join(OUTSIDE).join("promises.jsonl")
    }

    /// Creates the folder and puts files into it.
    ///
    /// # Errors
    ///
    /// When something cannot be written.
    pub fn create(&self, files: &Files) -> io::Result<()> {
        fs::create_dir_all(self.witnesses())?;
        for (name, content) in files {
            fs::write(self.0.join(name), content)?;
        }
        Ok(())
    }

    /// Reads all files, except the index of the log (`-shm`), which is not recorded.
    ///
    /// # Errors
    ///
    /// When something cannot be read.
    pub fn files(&self) -> io::Result<Files> {
        let mut files = Files::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&self.0).unwrap_or(&path);
                let name = name.display().to_string();
                if !name.ends_with("-shm") {
                    files.insert(name, fs::read(&path)?);
                }
            }
        }
        Ok(files)
    }
}
