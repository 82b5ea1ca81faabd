/* Classify a binary PPM or PGM picture with the board's model, and pick up each new model that the agent publishes.
 *
 *     cc -O2 -o classify classify.c -lonnxruntime        headers: Debian's libonnxruntime-dev, or ONNX Runtime's archive
 *     ./classify /var/lib/edgestill-model/current.onnx leaf.ppm            once
 *     ./classify /var/lib/edgestill-model/current.onnx leaf.ppm --watch    again whenever the model is replaced
 *
 * The model must take raw bytes: raw_input = true in [model] of agent.toml. current.onnx is replaced by one rename, and
 * carries its own card as metadata, so a graph and the names of its classes always belong together.
 */
#if __has_include(<onnxruntime/onnxruntime_c_api.h>)
#include <onnxruntime/onnxruntime_c_api.h>
#else
#include <onnxruntime_c_api.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const OrtApi *ort;

static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "classify: %s\n", ort->GetErrorMessage(status));
    exit(1);
}

static void fail(const char *text) {
    fprintf(stderr, "classify: %s\n", text);
    exit(1);
}

/* The n-th string of a JSON list of strings without escapes, or the number itself if the list is shorter. */
static void label_of(const char *names, int n, char *label, size_t size) {
    const char *start = names, *end = NULL;
    snprintf(label, size, "%d", n);
    for (int i = 0; start != NULL && i <= n; i++) {
        start = strchr(i ? end + 1 : start, '"');
        end = start ? strchr(start + 1, '"') : NULL;
        if (end == NULL) return;
        if (i == n) snprintf(label, size, "%.*s", (int)(end - start - 1), start + 1);
    }
}

static char *metadata(const OrtSession *session, const char *key) {
    OrtAllocator *allocator;
    OrtModelMetadata *facts;
    char *text;
    check(ort->GetAllocatorWithDefaultOptions(&allocator));
    check(ort->SessionGetModelMetadata(session, &facts));
    check(ort->ModelMetadataLookupCustomMetadataMap(facts, allocator, key, &text));
    ort->ReleaseModelMetadata(facts);
    return text; /* kept until the program ends; a few bytes for each model */
}

/* N, C, H, W of the input, which must be bytes. */
static void input_shape(const OrtSession *session, int64_t shape[4]) {
    OrtTypeInfo *info;
    const OrtTensorTypeAndShapeInfo *tensor;
    enum ONNXTensorElementDataType type;
    size_t count;
    check(ort->SessionGetInputTypeInfo(session, 0, &info));
    check(ort->CastTypeInfoToTensorInfo(info, &tensor));
    check(ort->GetTensorElementType(tensor, &type));
    check(ort->GetDimensionsCount(tensor, &count));
    if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 || count != 4)
        fail("the model does not take the bytes of pictures; set raw_input = true in [model] of agent.toml");
    check(ort->GetDimensions(tensor, shape, 4));
    ort->ReleaseTypeInfo(info);
    shape[0] = 1;
}

/* The picture, channels first: all of the first channel, then all of the second, ... */
static unsigned char *read_picture(const char *path, const int64_t shape[4]) {
    char kind;
    long width, height, most, channels = (long)shape[1], size = (long)(shape[2] * shape[3]);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail("cannot open the picture");
    if (fscanf(file, "P%c %ld %ld %ld", &kind, &width, &height, &most) != 4 || most != 255 ||
        (kind == '6' ? 3 : kind == '5' ? 1 : 0) != channels || width != shape[3] || height != shape[2])
        fail("the picture must be a binary PPM or PGM of the model's size, without comments");
    fgetc(file); /* one blank after the header */
    unsigned char *pixels = malloc(channels * size), *planes = malloc(channels * size);
    if (pixels == NULL || planes == NULL || fread(pixels, channels, size, file) != (size_t)size)
        fail("the picture is cut short");
    fclose(file);
    for (long i = 0; i < channels * size; i++) planes[i] = pixels[(i % size) * channels + i / size];
    free(pixels);
    return planes;
}

static void classify(OrtEnv *env, const char *model, const char *picture) {
    OrtSessionOptions *options;
    OrtSession *session;
    OrtMemoryInfo *memory;
    OrtValue *input, *output = NULL;
    OrtTensorTypeAndShapeInfo *answer;
    const char *inputs[] = {"input"}, *outputs[] = {"probabilities"};
    int64_t shape[4];
    size_t classes;
    float *probabilities;
    char label[201];
    check(ort->CreateSessionOptions(&options));
    check(ort->SetIntraOpNumThreads(options, 1));
    /* levels of weights are dequantized once, at the start */
    check(ort->AddSessionConfigEntry(options, "session.disable_quant_qdq", "1"));
    check(ort->CreateSession(env, model, options, &session));
    input_shape(session, shape);
    unsigned char *planes = read_picture(picture, shape);
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    check(ort->CreateTensorWithDataAsOrtValue(memory, planes, shape[1] * shape[2] * shape[3], shape, 4,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, &input));
    check(ort->Run(session, NULL, inputs, (const OrtValue *const *)&input, 1, outputs, 1, &output));
    check(ort->GetTensorTypeAndShape(output, &answer));
    check(ort->GetTensorShapeElementCount(answer, &classes));
    check(ort->GetTensorMutableData(output, (void **)&probabilities));
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    char *names = metadata(session, "class_names"), *round = metadata(session, "round");
    label_of(names, (int)best, label, sizeof label);
    printf("%s %s %.3f round %s\n", picture, label, probabilities[best], round ? round : "?");
    fflush(stdout);
    ort->ReleaseTensorTypeAndShapeInfo(answer);
    ort->ReleaseValue(output);
    ort->ReleaseValue(input);
    ort->ReleaseMemoryInfo(memory);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    free(planes);
}

int main(int count, char **words) {
    OrtEnv *env;
    struct stat now, before;
    if (count < 3) fail("usage: classify current.onnx picture.ppm [--watch]");
    ort = OrtGetApiBase()->GetApi(18); /* of ONNX Runtime 1.18, which newer ones have too */
    if (ort == NULL) fail("this ONNX Runtime is older than 1.18");
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "classify", &env));
    if (stat(words[1], &before)) fail("there is no model yet; the agent writes it after its first round");
    classify(env, words[1], words[2]);
    while (count > 3 && !strcmp(words[3], "--watch")) {
        sleep(1);
        /* another file under the same name: the agent has published a new model */
        if (stat(words[1], &now) || (now.st_ino == before.st_ino && now.st_mtime == before.st_mtime)) continue;
        before = now;
        classify(env, words[1], words[2]);
    }
    ort->ReleaseEnv(env);
    return 0;
}
