# weft_layer(NAME HEADERS headers... USES layers... API layers...): one folder of src/ as an object
# library. HEADERS are the public headers (include/weft) that the layer owns. Its include path holds
# its own folder and headers, those of the layers that it USES, and of the layers in API the public
# headers alone: any other include does not compile.
#
# These paths are written to layers/NAME.flags, for the test `layers`.
set(WEFT_LAYER_ROOT ${PROJECT_BINARY_DIR}/layers)
set(WEFT_LAYERS "" CACHE INTERNAL "")
# Links of headers that a layer no longer owns must go.
file(REMOVE_RECURSE ${WEFT_LAYER_ROOT})

function(weft_layer name)
    cmake_parse_arguments(ARG "" "" "HEADERS;USES;API;LIBS" ${ARGN})
    set(own ${WEFT_LAYER_ROOT}/${name})
    file(MAKE_DIRECTORY ${own}/src ${own}/include/weft/extend)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${own}/src/${name} SYMBOLIC)
    foreach(header ${ARG_HEADERS})
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/weft/${header}.h ${own}/include/weft/${header}.h SYMBOLIC)
    endforeach()
    set(folders "")
    foreach(layer ${name} ${ARG_USES})
        list(APPEND folders ${WEFT_LAYER_ROOT}/${layer}/src)
    endforeach()
    foreach(layer ${name} ${ARG_USES} ${ARG_API})
        list(APPEND folders ${WEFT_LAYER_ROOT}/${layer}/include)
    endforeach()
    file(GLOB_RECURSE sources RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
    list(FILTER sources EXCLUDE REGEX "/cpu/(isa|amx)/") # compiled once per instruction set (WeftIsa.cmake)
    list(FILTER sources EXCLUDE REGEX "/(cuda|nccl)/") # of libweft-cuda.so
    add_library(weft_${name} OBJECT ${sources})
    target_link_libraries(weft_${name} PRIVATE weft_flags ${ARG_LIBS})
    target_include_directories(weft_${name} PRIVATE ${folders})
    set(WEFT_LAYERS ${WEFT_LAYERS} ${name} CACHE INTERNAL "")

    list(TRANSFORM folders PREPEND "-I")
    string(REPLACE ";" "\n" flags "${folders}")
    file(WRITE ${own}.flags "${flags}\n")
endfunction()
