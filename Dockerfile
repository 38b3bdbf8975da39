# Everything Ludus needs, as the container of the training pipeline has it; no ROS.
#   docker build -t ludus .
#   docker run --rm -it -v "$PWD/runs:/ludus/runs" ludus train quickstart
#   docker run --rm -it -p 127.0.0.1:10000-10007:10000-10007 ludus train unity-uc1 env.kwargs.host=0.0.0.0
FROM python:3.11-slim

# Box2D has no wheel for every platform: swig and a compiler build it where there is none
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential make swig \
    && rm -rf /var/lib/apt/lists/*

# where pip finds another build of torch, such as the one without CUDA: --build-arg PIP_EXTRA_INDEX_URL=…
ARG PIP_EXTRA_INDEX_URL=""
WORKDIR /ludus
COPY . .
RUN PIP_NO_CACHE_DIR=1 make install
ENV PATH="/ludus/.venv/bin:$PATH" PYTHONUNBUFFERED=1

# where Unity simulators connect, one port each
EXPOSE 10000-10031
ENTRYPOINT ["ludus"]
CMD ["--help"]
