//! The order of the public client in tables: the failures of the tries, and the routes.

use plimsoll_schedule::{Stream, rng, uniform};

use super::*;

const SECOND: i64 = 1_000_000_000;

fn failover(servers: usize, proxies: usize, balance: Balance, to_server: bool) -> Failover {
    Failover::new(servers, proxies, balance, to_server, rng(7, Stream::Driver, 0, 0))
}

fn name(way: Option<Way>) -> String {
    match way {
        None => "stop".to_owned(),
        Some(Way { server, proxy: None }) => format!("s{server}"),
        Some(Way {
            server,
            proxy: Some(proxy),
        }) => format!("p{proxy}s{server}"),
    }
}

fn failed_try(letter: char) -> FailedTry {
    let trouble = match letter {
        'c' => Trouble::Connect,
        'n' => Trouble::Network,
        'p' => Trouble::Protocol,
        's' => Trouble::Server,
        other => panic!("{other}"),
    };
    FailedTry {
        trouble,
        age: None,
        max_age: None,
    }
}

/// The routes of one request. Each letter of `failures` is the kind of failure of one try.
fn routes(failover: &mut Failover, failures: &str) -> String {
    let mut routes = vec![name(Some(failover.begin(|_| false)))];
    for letter in failures.chars() {
        routes.push(name(failover.after(failed_try(letter))));
    }
    routes.join(" ")
}

#[test]
fn the_order_of_the_routes_is_that_of_the_public_client() {
    for (servers, proxies, to_server, failures, expected) in [
        // Connect errors: every proxy, then the servers directly.
        (1, 0, true, "c", "s0 stop"),
        (2, 0, true, "cc", "s0 s1 stop"),
        (1, 1, true, "cc", "p0s0 s0 stop"),
        (1, 1, false, "c", "p0s0 stop"),
        (2, 2, true, "cccc", "p0s0 p1s0 s0 s1 stop"),
        (2, 2, false, "cc", "p0s0 p1s0 stop"),
        // A connection that fails: the next server through the same proxy, then the next proxy,
        // then directly.
        (1, 1, true, "nn", "p0s0 s0 stop"),
        (2, 1, true, "nnnn", "p0s0 p0s1 s0 s1 stop"),
        (2, 2, true, "nnnnnn", "p0s0 p0s1 p1s0 p1s1 s0 s1 stop"),
        (2, 2, false, "nnnn", "p0s0 p0s1 p1s0 p1s1 stop"),
        // An invalid response: as a connection that fails.
        (2, 1, true, "pppp", "p0s0 p0s1 s0 s1 stop"),
        // Server errors: every server, the first again through the next proxy, then directly.
        (2, 0, true, "ss", "s0 s1 stop"),
        (2, 1, true, "ssss", "p0s0 p0s1 s0 s1 stop"),
        (2, 2, true, "ssssss", "p0s0 p0s1 p1s0 p1s1 s0 s1 stop"),
        (2, 2, false, "ssss", "p0s0 p0s1 p1s0 p1s1 stop"),
        // One query that fails costs two requests behind a proxy.
        (1, 1, true, "ss", "p0s0 s0 stop"),
        // Mixed: a proxy without a connection, then a bad server behind the other proxy.
        (2, 2, true, "cs", "p0s0 p1s0 p1s1"),
        // A bad server is skipped when the round over the servers restarts, until all were tried.
        (3, 1, true, "scn", "p0s0 p0s1 s1 s2"),
        // After server errors the round over the servers restarts, but not that over the proxies.
        (2, 2, true, "ssn", "p0s0 p0s1 p1s0 s0"),
    ] {
        let mut failover = failover(servers, proxies, Balance::None, to_server);
        assert_eq!(
            routes(&mut failover, failures),
            expected,
            "{servers} servers, {proxies} proxies, {failures}"
        );
    }
}

#[test]
fn bad_hosts_are_skipped_until_their_marks_expire() {
    let mut failover = failover(2, 2, Balance::None, true);
    assert!(
        !failover.reset_expired(0),
        "there are no marks before the first request"
    );
    assert_eq!(routes(&mut failover, "c"), "p0s0 p1s0");
    assert!(!failover.reset_expired(299 * SECOND));
    assert_eq!(
        routes(&mut failover, "c"),
        "p1s0 s0",
        "the first proxy is still bad"
    );
    assert!(!failover.reset_expired(299 * SECOND));
    assert_eq!(
        routes(&mut failover, "s"),
        "s0 s1",
        "direct, and the first server is bad"
    );
    assert!(failover.reset_expired(300 * SECOND), "five minutes: proxies");
    assert_eq!(routes(&mut failover, ""), "p0s1", "servers stay as they were");
    assert!(!failover.reset_expired(599 * SECOND));
    assert!(failover.reset_expired(1800 * SECOND), "thirty minutes: servers");
    assert_eq!(routes(&mut failover, ""), "p0s0");
}

#[test]
fn the_request_after_one_without_remaining_routes_begins_with_the_first_route() {
    let mut failover = failover(2, 1, Balance::None, true);
    failover.reset_expired(0);
    assert_eq!(routes(&mut failover, "ccc"), "p0s0 s0 s1 stop");
    assert!(failover.reset_expired(1));
    assert_eq!(routes(&mut failover, ""), "p0s0");
    assert!(!failover.reset_expired(2));
}

#[test]
fn an_old_invalid_response_is_requested_again_on_the_same_route() {
    let mut failover = failover(1, 1, Balance::None, true);
    failover.reset_expired(0);
    let protocol = |age| FailedTry {
        age,
        ..failed_try('p')
    };
    let way = failover.begin(|_| false);
    assert_eq!(failover.fresh(), Fresh::AsAsked);
    assert_eq!(failover.after(protocol(Some(301))), Some(way));
    assert_eq!(failover.fresh(), Fresh::MaxAge(300));
    assert_eq!(failover.after(protocol(Some(301))), Some(way));
    assert_eq!(failover.fresh(), Fresh::NoCache);
    assert_eq!(name(failover.after(protocol(Some(301)))), "s0");
    assert_eq!(failover.fresh(), Fresh::AsAsked);

    failover.begin(|_| true);
    assert_eq!(
        name(failover.after(protocol(Some(300)))),
        "stop",
        "the response is not older than the limit"
    );
    failover.reset_expired(1);
    let way = failover.begin(|_| false);
    let reported = |age, max_age| FailedTry {
        age: Some(age),
        max_age: Some(max_age),
        ..failed_try('s')
    };
    assert_eq!(
        failover.after(reported(11, 10)),
        Some(way),
        "the limit of the server applies to its errors, too"
    );
    assert_eq!(failover.fresh(), Fresh::MaxAge(10));
    assert_eq!(
        name(failover.after(reported(0, 10))),
        "s0",
        "only protocol errors are followed by no-cache"
    );
}

#[test]
fn balanced_proxies_begin_with_a_random_one_and_end_after_one_round() {
    let mut failover = failover(1, 3, Balance::Proxies, true);
    let mut first = [0; 3];
    for _ in 0..3_000 {
        first[failover.begin(|_| false).proxy.unwrap()] += 1;
    }
    assert!(
        first.iter().all(|&count: &i32| (count - 1_000).abs() < 130),
        "{first:?}"
    );
    let start = failover.begin(|_| false).proxy.unwrap();
    assert_eq!(
        failover.begin(|way| way.proxy == Some(start)).proxy,
        Some(start),
        "an open connection is used again"
    );
    let round: Vec<Option<usize>> = (0..2)
        .map(|_| failover.after(failed_try('c')).unwrap().proxy)
        .collect();
    assert_eq!(round, [Some((start + 1) % 3), Some((start + 2) % 3)]);
    assert_eq!(
        name(failover.after(failed_try('c'))),
        "s0",
        "all three were tried"
    );

    let mut failover = self::failover(3, 0, Balance::Servers, true);
    failover.reset_expired(0);
    let bad = failover.begin(|_| false).server;
    assert!(failover.after(failed_try('s')).is_some());
    for _ in 0..100 {
        assert_ne!(failover.begin(|_| false).server, bad, "a bad one is not chosen");
    }
}

#[test]
fn after_failed_connections_each_server_is_tried_through_all_balanced_proxies() {
    let mut failover = failover(2, 2, Balance::Proxies, true);
    let start = failover.begin(|_| false).proxy.unwrap();
    let other = 1 - start;
    let routes: Vec<String> = "nnnnnn"
        .chars()
        .map(|letter| name(failover.after(failed_try(letter))))
        .collect();
    assert_eq!(
        routes,
        [
            format!("p{other}s0"),
            format!("p{start}s1"),
            format!("p{other}s1"),
            "s0".to_owned(),
            "s1".to_owned(),
            "stop".to_owned(),
        ]
    );
}

#[test]
fn every_request_ends() {
    let mut draw = rng(3, Stream::Driver, 0, 1);
    for round in 0..20_000 {
        let (servers, proxies) = (1 + uniform(&mut draw, 4) as usize, uniform(&mut draw, 4) as usize);
        let balance = [Balance::None, Balance::Proxies, Balance::Servers][uniform(&mut draw, 3) as usize];
        let mut failover = failover(servers, proxies, balance, uniform(&mut draw, 2) == 0);
        for request in 0..3 {
            failover.reset_expired(request);
            failover.begin(|_| false);
            let mut tries = 1;
            loop {
                let failed = FailedTry {
                    age: Some(400 * uniform(&mut draw, 2)),
                    ..failed_try("cnps".chars().nth(uniform(&mut draw, 4) as usize).unwrap())
                };
                let Some(way) = failover.after(failed) else { break };
                assert!(way.server < servers && way.proxy.is_none_or(|proxy| proxy < proxies));
                tries += 1;
                assert!(
                    tries < 500,
                    "round {round}: {servers} servers, {proxies} proxies, {balance:?}"
                );
            }
        }
    }
}
