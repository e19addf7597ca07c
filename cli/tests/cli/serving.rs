//! Options of `serve` that could never work are refused, and the error names the option and what would be right.

use crate::env::Env;

#[test]
fn an_option_of_serve_that_could_never_work_is_refused() {
    let env = Env::new();
    for (words, says) in [
        (
            &["--host", "http://tasks.example.com"][..],
            "write it like tasks.example.com, without http:// and a path",
        ),
        (&["--host", ""], "is no name that the header 'Host'"),
        (&["--host", "*.example.com"], "'*.example.com' is no name"),
        (&["--max-body", "0"], "refuses every body; give at least 1"),
        (&["--max-body", "0K"], "refuses every body; give at least 1"),
        (
            &["--base-path", "/v1"],
            "--base-path: '/v1' has the part 'v1', with which the paths of the API begin",
        ),
        (&["--base-path", "/ops/v1"], "has the part 'v1'"),
        (&["--base-path", "/ops/../x"], "has the part '..'"),
        (
            &["--trust-header", "Sec-Fetch-Site", "--trust-user", "a=read"],
            "--trust-header: 'Sec-Fetch-Site' is not the name of a header for this purpose",
        ),
        (
            &["--trust-header", "user-agent", "--trust-user", "a=read"],
            "give one that only the proxy sets, such as X-Forwarded-User",
        ),
    ] {
        let words = [&["serve", "--no-socket", "--listen", "127.0.0.1:0"], words].concat();
        env.run(&words).fails(2, &[says]);
    }
}
