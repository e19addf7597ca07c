//! The balancer of the node of a run.

use super::*;

#[test]
fn a_run_has_any_balancer() {
    for (n, balancer) in [
        "greedy",
        "fair",
        "fair,threshold=150%",
        "slower,delay=1s",
        "resource,of=load,claim=1000000%",
    ]
    .iter()
    .enumerate()
    {
        let place = Place::new();
        place.write("lines", "1\n2\n3\n");
        let options = [
            "--each",
            "echo {} >> log",
            "--shell",
            "--balancer",
            balancer,
        ];
        let (code, _, err) = place.run(&[&["run", "lines"][..], &options].concat());
        assert_eq!(code, 0, "{n} {balancer}: {err}");
        assert_eq!(place.read("log").lines().count(), 3, "{balancer}");
    }
}

#[test]
fn a_wrong_balancer_is_refused_with_what_is_right() {
    let place = Place::new();
    place.write("lines", "1\n");
    for (balancer, says) in [
        (
            "even",
            "'even' is not a balancer; it is greedy, fair, slower or resource",
        ),
        ("fair,threshold=80%", "threshold: 80% is below the average"),
        (
            "resource,claim=90%,release=50%",
            "release: 50 is below the claim limit of 90",
        ),
    ] {
        for command in [&["run", "lines", "--each", "true"][..], &["worker"]] {
            let args = [command, &["--balancer", balancer]].concat();
            let (code, _, err) = place.run(&args);
            assert_eq!(code, 2, "{balancer}: {err}");
            assert!(err.contains(says), "{balancer}: {err}");
        }
    }
}
