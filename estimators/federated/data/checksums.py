"""SHA-256 of published data files.

Sources.  MNIST: the files of yann.lecun.com/exdb/mnist and their CVDF mirror, as many projects pin them (gzip, then
decompressed).  Fashion-MNIST: github zalandoresearch/fashion-mnist, whose published MD5s the same pins carry.  CIFAR-10: the
members of cifar-10-binary.tar.gz (cs.toronto.edu/~kriz), as ankane/torchvision-ruby pins them.  School: data/school.mat of
jiayuzhou/MALSAR, the same bytes as in kenziyuliu/private-cross-silo-fl.  Landmine: LandmineData.mat of
daizhongxiang/Federated_Bayesian_Optimization.

Belongs here: checksums and where they come from.  Checking them is in ``files``.
"""

__all__ = ["KNOWN"]

# sha256, data set, part, file
TABLE = """
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 mnist train-images train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c mnist train-labels train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 mnist test-images t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 mnist test-labels t10k-labels-idx1-ubyte.gz
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db mnist train-images train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 mnist train-labels train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 mnist test-images t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 mnist test-labels t10k-labels-idx1-ubyte
3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 fashion_mnist train-images train-images-idx3-ubyte.gz
a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 fashion_mnist train-labels train-labels-idx1-ubyte.gz
346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 fashion_mnist test-images t10k-images-idx3-ubyte.gz
67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 fashion_mnist test-labels t10k-labels-idx1-ubyte.gz
cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 cifar10 train data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed cifar10 train data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 cifar10 train data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 cifar10 train data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add cifar10 train data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b cifar10 test test_batch.bin
57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068 school all school.mat
2163ab20a80e33a8b65593c48cf283c540599dcb291105e63fa4af2ce24c2bea landmine all LandmineData.mat
"""

KNOWN = {
    digest: (dataset, part.replace("-", " "), file)
    for digest, dataset, part, file in (line.split() for line in TABLE.strip().splitlines())
}
