//! The program `windlass` under another name: Cargo tells a test only where the programs of its own
//! package are.

fn main() -> std::process::ExitCode {
    windlass_cli::main()
}
