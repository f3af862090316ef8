//! The protocol, byte by byte, against a listener that is really there.

use kollect_api::address::AddressPolicy;
use tokio::net::TcpListener;

use super::*;
use crate::dial::tests::{Table, loopback};

/// Every name is the next answer of the table; 127.0.0.1 is allowed.
fn dialer(answers: &[&[&str]]) -> Dialer {
    let table = Table::new(answers.iter().copied());
    Dialer::with_resolver(loopback("127.0.0.1/32"), table)
}

/// A server that says `hello` first and then what it hears.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(b"hello ").await.unwrap();
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await.unwrap();
            });
        }
    });
    port
}

fn login(guard: &SocksGuard, password: Option<&str>) -> Vec<u8> {
    let login = guard.login().unwrap();
    let password = password.unwrap_or(login.password.expose());
    let mut bytes = vec![PASSWORD_VERSION, u8::try_from(login.user.len()).unwrap()];
    bytes.extend(login.user.as_bytes());
    bytes.push(u8::try_from(password.len()).unwrap());
    bytes.extend(password.as_bytes());
    bytes
}

fn connect(host: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![VERSION, CONNECT, 0, NAME, u8::try_from(host.len()).unwrap()];
    bytes.extend(host.as_bytes());
    bytes.extend(port.to_be_bytes());
    bytes
}

/// Sends everything and reads until the proxy hangs up.
async fn talk(guard: &SocksGuard, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(guard.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A refusal with bytes unread comes as a reset; what was said before counts.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

fn replied(reply: Reply) -> Vec<u8> {
    vec![VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[tokio::test]
async fn a_client_with_the_password_is_carried_to_the_judged_address() {
    let port = echo().await;
    let guard = SocksGuard::with_password(dialer(&[&["127.0.0.1"]]))
        .await
        .unwrap();
    let mut bytes = vec![VERSION, 2, NO_PASSWORD, PASSWORD];
    bytes.extend(login(&guard, None));
    bytes.extend(connect("db.example.com", port));
    bytes.extend(b"world");
    let mut expected = vec![VERSION, PASSWORD, PASSWORD_VERSION, 0];
    expected.extend(replied(Reply::Connected));
    expected.extend(b"hello world");
    assert_eq!(talk(&guard, &bytes).await, expected);
    assert_eq!(guard.last_failure(), None);
}

#[tokio::test]
async fn without_the_password_nobody_gets_to_the_request() {
    let port = echo().await;
    let guard = SocksGuard::with_password(dialer(&[&["127.0.0.1"]]))
        .await
        .unwrap();
    let other = SocksGuard::with_password(dialer(&[&["127.0.0.1"]]))
        .await
        .unwrap();
    let right = guard.login().unwrap().password.expose().to_owned();
    let foreign = other.login().unwrap().password.expose().to_owned();
    assert_ne!(right, foreign, "each listener has its own");
    assert!(right.len() >= 43);

    let only_none = [VERSION, 1, NO_PASSWORD];
    assert_eq!(
        talk(&guard, &only_none).await,
        [VERSION, NOTHING_ACCEPTABLE]
    );
    for wrong in ["", "x", &right[1..], &foreign, &format!("{right}x")] {
        let mut bytes = vec![VERSION, 1, PASSWORD];
        bytes.extend(login(&guard, Some(wrong)));
        bytes.extend(connect("db.example.com", port));
        let expected = [VERSION, PASSWORD, PASSWORD_VERSION, 1];
        assert_eq!(talk(&guard, &bytes).await, expected, "{wrong:?}");
    }
    assert!(!format!("{guard:?}").contains(&right));
}

/// Another process that asks for the same as the test above this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_without_password_serves_this_process_alone() {
    let port = echo().await;
    let guard = SocksGuard::for_own_process(dialer(&[&["127.0.0.1"]]))
        .await
        .unwrap();
    assert!(guard.login().is_none());
    let mut bytes = vec![VERSION, 1, NO_PASSWORD];
    bytes.extend(connect("db.example.com", port));
    let mut expected = vec![VERSION, NO_PASSWORD];
    expected.extend(replied(Reply::Connected));
    expected.extend(b"hello ");
    assert_eq!(talk(&guard, &bytes).await, expected);

    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf '\\x05\\x01\\x00' >&3; wc -c <&3",
        guard.address().port()
    );
    let stranger = tokio::task::spawn_blocking(move || {
        std::process::Command::new("bash")
            .arg("-c")
            .arg(script)
            .output()
    });
    let output = stranger.await.unwrap().unwrap();
    let heard = String::from_utf8(output.stdout).unwrap();
    assert!(matches!(heard.trim(), "" | "0"), "{heard}");
}

#[tokio::test]
async fn other_requests_are_refused() {
    let guard = SocksGuard::for_own_process(dialer(&[&["127.0.0.1"]]))
        .await
        .unwrap();
    let greeting = vec![VERSION, 1, NO_PASSWORD];
    for (request, reply) in [
        // BIND, UDP ASSOCIATE and a command that does not exist.
        (
            vec![VERSION, 2, 0, IPV4, 127, 0, 0, 1, 0, 1],
            Some(Reply::CommandNotSupported),
        ),
        (
            vec![VERSION, 3, 0, IPV4, 127, 0, 0, 1, 0, 1],
            Some(Reply::CommandNotSupported),
        ),
        (
            vec![VERSION, 9, 0, IPV4, 127, 0, 0, 1, 0, 1],
            Some(Reply::CommandNotSupported),
        ),
        (
            vec![VERSION, CONNECT, 0, 2, 0, 0, 0],
            Some(Reply::AddressTypeNotSupported),
        ),
        (
            vec![VERSION, CONNECT, 0, NAME, 2, 0xff, 0xfe, 0, 1],
            Some(Reply::AddressTypeNotSupported),
        ),
        (vec![4, CONNECT, 0, IPV4, 127, 0, 0, 1, 0, 1], None),
        (vec![VERSION, CONNECT, 0, NAME, 200, b'x'], None),
    ] {
        let bytes = [greeting.clone(), request.clone()].concat();
        let expected = [
            vec![VERSION, NO_PASSWORD],
            reply.map(replied).unwrap_or_default(),
        ]
        .concat();
        assert_eq!(talk(&guard, &bytes).await, expected, "{request:?}");
    }
    for broken in [
        vec![4, 1, 0],
        vec![VERSION, 0],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let answer = talk(&guard, &broken).await;
        assert!(
            answer.is_empty() || answer == [VERSION, NOTHING_ACCEPTABLE],
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn the_policy_and_the_network_say_no_in_different_words() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let greeting = vec![VERSION, 1, NO_PASSWORD];
    let address = |kind: u8, address: &[u8]| {
        [
            &[VERSION, CONNECT, 0, kind],
            address,
            &port.to_be_bytes()[..],
        ]
        .concat()
    };
    for (answers, request, reply, text) in [
        (
            &[][..],
            connect("localhost", port),
            Reply::NotAllowed,
            "\"localhost\" is forbidden",
        ),
        (
            &[],
            connect("127.0.0.2", port),
            Reply::NotAllowed,
            "\"127.0.0.2\" is forbidden",
        ),
        (
            &[],
            address(IPV4, &[169, 254, 169, 254]),
            Reply::NotAllowed,
            "forbidden",
        ),
        (
            &[],
            address(IPV6, &std::net::Ipv6Addr::LOCALHOST.octets()),
            Reply::NotAllowed,
            "forbidden",
        ),
        (
            &[&["10.0.0.1"][..]],
            connect("db.example.com", port),
            Reply::NotAllowed,
            "10.0.0.1",
        ),
        (
            &[],
            connect("db.example.com", port),
            Reply::HostUnreachable,
            "cannot resolve",
        ),
        (
            &[&["127.0.0.1"]],
            connect("db.example.com", port),
            Reply::ConnectionRefused,
            "refused",
        ),
    ] {
        let guard = SocksGuard::for_own_process(dialer(answers)).await.unwrap();
        let bytes = [greeting.clone(), request].concat();
        let expected = [vec![VERSION, NO_PASSWORD], replied(reply)].concat();
        assert_eq!(talk(&guard, &bytes).await, expected, "{text}");
        let failure = guard.last_failure().unwrap();
        assert!(failure.message().contains(text), "{failure}");
        let terminal = matches!(failure, SinkError::Terminal(_));
        assert_eq!(terminal, reply == Reply::NotAllowed, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_caller_is_not_waited_for() {
    let (mut client, mut server) = tokio::io::duplex(64);
    client.write_all(&[VERSION, 1]).await.unwrap();
    let quiet = Server {
        dialer: Dialer::new(AddressPolicy::default()),
        password: None,
        wire: Wire::Bytes,
    };
    let waited = timeout(HANDSHAKE, quiet.handshake(&mut server)).await;
    assert!(waited.is_err());
}
