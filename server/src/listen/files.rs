//! How many connections the files of the process are enough for.

use nix::sys::resource::{Resource, getrlimit};

/// How many files are left to the store, logs and commands.
const OTHERS: usize = 256;

/// Returns how many connections may be open by TCP and by the sockets: as many as were asked for, or as the process may have
/// files, so that the store can still open its own.
pub(super) fn connections(most: usize) -> (usize, usize) {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft);
    let files = files.map_or(usize::MAX, |soft| {
        usize::try_from(soft).unwrap_or(usize::MAX)
    });
    let shares = shares(most, files);
    if shares.0 < most {
        tracing::info!(
            files,
            connections = shares.0,
            "fewer connections than {most} may be open: the process may open too few files; raise the limit (LimitNOFILE, ulimit -n)"
        );
    }
    shares
}

fn shares(most: usize, files: usize) -> (usize, usize) {
    let free = files.saturating_sub(OTHERS.min(files / 2));
    match free >= most.saturating_mul(2) {
        true => (most, most),
        false => {
            let by_socket = (free / 4).clamp(1, most.max(1));
            (
                (free - by_socket.min(free)).clamp(1, most.max(1)),
                by_socket,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        assert_eq!(shares(8192, 1_048_576), (8192, 8192));
        assert_eq!(shares(8192, 1024), (576, 192));
        assert_eq!(shares(8192, 10_000), (7308, 2436));
        assert_eq!(shares(2, 64), (2, 2));
        assert_eq!(shares(8192, usize::MAX), (8192, 8192));
    }
}
