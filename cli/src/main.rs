//! The program `windlass`; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    windlass_cli::main()
}
