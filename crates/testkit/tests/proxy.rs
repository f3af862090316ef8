//! The proxy carries bytes, and fails in exactly the ways it is told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use kollect_testkit::{Proxy, wait::eventually};

/// Returns every byte it is sent.
fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    expect(stream, text);
}

fn expect(stream: &mut TcpStream, text: &str) {
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text.as_bytes());
}

fn assert_ends(stream: &mut TcpStream) {
    match stream.read(&mut [0; 16]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection goes on: {other:?}"),
    }
}

#[test]
fn everything_arrives_in_both_directions_and_so_does_the_end() {
    let proxy = Proxy::to(echo_server()).unwrap();
    let mut stream = connect(&proxy);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let data = sent.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&data).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(sent == received, "what arrived is not what was sent");
    eventually("the connection to be forgotten", || {
        anyhow::ensure!(proxy.connections() == 0, "{} open", proxy.connections());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_stall_holds_everything_back_until_it_ends() {
    let proxy = Proxy::to(echo_server()).unwrap();
    let mut old = connect(&proxy);
    ask(&mut old, "before");
    proxy.stall(true);
    let mut new = connect(&proxy);
    for stream in [&mut old, &mut new] {
        stream.write_all(b"held back").unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(150)))
            .unwrap();
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
    }
    proxy.stall(false);
    expect(&mut old, "held back");
    expect(&mut new, "held back");
}

#[test]
fn a_cut_ends_connections_also_stalled_ones_and_new_ones_work() {
    let proxy = Proxy::to(echo_server()).unwrap();
    let mut first = connect(&proxy);
    ask(&mut first, "hello");
    proxy.cut();
    assert_ends(&mut first);
    let mut second = connect(&proxy);
    ask(&mut second, "hello again");
    proxy.stall(true);
    second.write_all(b"lost").unwrap();
    proxy.cut();
    assert_ends(&mut second);
    proxy.stall(false);
    ask(&mut connect(&proxy), "once more");
}

#[test]
fn refusing_is_refusing_until_it_accepts_again_on_the_same_port() {
    let proxy = Proxy::to(echo_server()).unwrap();
    let address = proxy.address();
    let mut open = connect(&proxy);
    ask(&mut open, "hello");
    for _ in 0..3 {
        proxy.refuse();
        proxy.refuse();
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        proxy.accept().unwrap();
        proxy.accept().unwrap();
        assert_eq!(proxy.address(), address);
        ask(&mut connect(&proxy), "back");
    }
    assert_ends(&mut open);
    drop(proxy);
    let error = TcpStream::connect(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_throttle_takes_its_time() {
    let proxy = Proxy::to(echo_server()).unwrap();
    proxy.throttle(Some(20_000));
    let mut stream = connect(&proxy);
    let began = Instant::now();
    ask(&mut stream, &"x".repeat(10_000));
    let slow = began.elapsed();
    assert!(slow >= Duration::from_millis(400), "10 kB took {slow:?}");
    proxy.throttle(None);
    ask(&mut stream, &"x".repeat(10_000));
}
