//! The variables that commands inherit from the worker.

use std::{
    ffi::{OsStr, OsString},
    sync::OnceLock,
};

/// The variables with the place in a trace: those of the headers `traceparent` and `tracestate`.
pub(super) const TRACE: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];
/// The variable that names the store.
pub(super) const STORE: &str = "WINDLASS_STORE";

/// Returns the variables of this process that configure windlass, and those of its own place in a trace. No command inherits
/// them: they may hold a password, and the output of commands is stored; a command belongs to the trace of its task. They
/// do not change while the process runs.
pub(super) fn own_variables() -> &'static [OsString] {
    static NAMES: OnceLock<Vec<OsString>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| is_own(name)).collect()
    })
}

fn is_own(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"WINDLASS_") || TRACE.iter().any(|of| of.as_bytes() == name)
}
