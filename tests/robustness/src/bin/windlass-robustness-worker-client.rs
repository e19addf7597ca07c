//! The client under test of `windlass worker-check`; the arguments are its faults.

fn main() -> std::process::ExitCode {
    windlass_worker_client::check::main()
}
