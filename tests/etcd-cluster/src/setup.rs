//! [`Setup`]: what a cluster is made of.

use std::path::PathBuf;

/// The usual program: `ETCD_BIN`, or `etcd` of the PATH.
pub fn program() -> PathBuf {
    std::env::var_os("ETCD_BIN").map_or_else(|| PathBuf::from("etcd"), PathBuf::from)
}

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program of the servers: [`program`] by default.
    pub program: PathBuf,
    /// How many members.
    pub members: usize,
    /// `http` or `https`: how clients speak to it.
    pub scheme: &'static str,
    /// More arguments for the program.
    pub arguments: Vec<String>,
    /// The folder of its data and logs; by default a folder that is deleted with it.
    pub folder: Option<PathBuf>,
}

impl Setup {
    /// Returns the setup of this many members, without TLS.
    pub fn of(members: usize) -> Self {
        Self {
            program: program(),
            members,
            scheme: "http",
            arguments: Vec::new(),
            folder: None,
        }
    }
}
