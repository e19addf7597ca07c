//! [`Setup`]: what a cluster is made of.

use std::path::PathBuf;

/// The usual program: `ETCD_BIN`, or `etcd` of the PATH.
pub fn program() -> PathBuf {
    std::env::var_os("ETCD_BIN").map_or_else(|| PathBuf::from("etcd"), PathBuf::from)
}

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program of the servers: [`program`], if it is not said.
    pub program: PathBuf,
    /// How many members.
    pub members: usize,
    /// `http` or `https`: how clients speak to it.
    pub scheme: &'static str,
    /// More arguments for the program.
    pub arguments: Vec<String>,
    /// Where its data and logs are; a folder that goes with it, if it is not said.
    pub folder: Option<PathBuf>,
}

impl Setup {
    /// So many members, without TLS.
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
